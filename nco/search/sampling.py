"""Sampled construction: many trajectories of many instances at once, node by node, along a sparse heat.

From each node a trajectory goes on to an open node with a probability in proportion to its heat, or to the hottest one;
a decoder says when it does which. Moves outside of the sparse graph have the weight of the background. They are drawn
exactly, without a look at each of them: any open node is proposed with that weight, and what may not be chosen is
rejected.

The kernels release the interpreter lock and run in threads. Every trajectory has random numbers of its own, so the
result does not depend on the threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nco.instance import InstanceBatch
from nco.search.heat import BACKGROUND, SparseHeat


@dataclass(frozen=True)
class Decoder:
    """When a trajectory draws its next node, and when it takes the one of the largest weight (the lowest on ties).

    Attributes
    ----------
    drawn : float
        Probability of drawing a step, tossed for each step of each trajectory.
    drawn_at_depot : float
        The same for steps that leave the depot of a CVRP.
    """

    drawn: float
    drawn_at_depot: float

    def __post_init__(self) -> None:
        for share in (self.drawn, self.drawn_at_depot):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"a probability of drawing lies between 0 and 1, not at {share}")


def epsilon(drawn: float) -> Decoder:
    """Return the decoder that draws each step with a probability, and is greedy otherwise."""
    return Decoder(drawn, drawn)


SAMPLE = epsilon(1.0)
GREEDY = epsilon(0.0)
# AGFN's hybrid decoding. The released program tosses one coin for all trajectories of a step; here each has its own.
AGFN_COIN = epsilon(0.05)
# HBG's decoding of a CVRP: what leaves the depot is drawn, the rest of a route is greedy.
DEPOT_GUIDED = Decoder(0.0, 1.0)


@dataclass(frozen=True)
class Trajectories:
    """Complete trajectories of B instances, h each.

    Attributes
    ----------
    nodes : int64 [B, h, L]
        Giant tours: of a TSP permutations, L = N; of a CVRP with at least two zeros at the end of each.
    costs : float64 [B, h]
        Their lengths in the batch's unit square.
    """

    nodes: Tensor
    costs: Tensor


@dataclass(frozen=True)
class MoveWeights:
    """Weights of moves, in proportion to which they are drawn.

    Attributes
    ----------
    neighbours : int32 [B, N, k]
    near : float64 [B, N, k]
        Of the moves to the neighbours.
    from_depot, to_depot : float64 [B, N] or None
        Of a CVRP's moves from the depot to each customer and back.
    background : float
        Of any other move.
    """

    neighbours: NDArray[np.int32]
    near: NDArray[np.float64]
    from_depot: NDArray[np.float64] | None
    to_depot: NDArray[np.float64] | None
    background: float

    @classmethod
    def from_heat(cls, heat: SparseHeat, inverse_temperature: float = 1.0) -> MoveWeights:
        """Return (heat + background) ** inverse_temperature.

        The sum is that of single precision: where heats are tied in it, as networks compute them, so are the weights.
        """

        def weights(values: Tensor) -> NDArray[np.float64]:
            return (values.detach().to("cpu", torch.float32) + BACKGROUND).numpy().astype(np.float64) ** (
                inverse_temperature
            )

        return cls(
            heat.neighbours.to("cpu", torch.int32).numpy(),
            weights(heat.heat),
            None if heat.from_depot is None else weights(heat.from_depot),
            None if heat.to_depot is None else weights(heat.to_depot),
            float(np.float32(BACKGROUND)) ** inverse_temperature,
        )


def sample_trajectories(
    batch: InstanceBatch,
    heat: SparseHeat,
    count: int,
    decoder: Decoder,
    generator: np.random.Generator,
    *,
    inverse_temperature: float = 1.0,
    start: Tensor | None = None,
    threads: int = 1,
) -> Trajectories:
    """Construct trajectories along a heat.

    Parameters
    ----------
    batch : InstanceBatch
        B instances.
    heat : SparseHeat
        Of the same instances.
    count : int
        Trajectories of each instance, h.
    decoder : Decoder
    generator : numpy.random.Generator
    inverse_temperature : float
        Exponent of the heats: above 1 the hottest moves become still likelier.
    start : int64 [B, h], optional
        First nodes of a TSP; random ones by default. A CVRP starts at its depot.
    threads : int

    Raises
    ------
    ValueError
        If the heat does not fit the batch, or start nodes are given that there are not.
    """
    weights = MoveWeights.from_heat(heat, inverse_temperature)
    nodes = sample_nodes(batch, weights, count, decoder, generator, start=start, threads=threads)
    return Trajectories(torch.from_numpy(nodes).to(batch.device), trajectory_lengths(batch, nodes).to(batch.device))


def sample_nodes(
    batch: InstanceBatch,
    weights: MoveWeights,
    count: int,
    decoder: Decoder,
    generator: np.random.Generator,
    *,
    start: Tensor | None = None,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Construct trajectories along weights of moves; see :func:`sample_trajectories`. Returns int64 [B, h, L]."""
    from nco.search.tsp_local_search import in_threads
    from nco.search.walks import walk_routes, walk_tours

    _check_fit(batch, weights)
    neighbours, near, sums = _arrange(weights.neighbours, weights.near)
    rows, size = len(batch), batch.num_nodes
    states = generator.integers(0, 2**64, size=(rows, count, 1), dtype=np.uint64)
    if batch.demand is None or batch.capacity is None:
        starts = _starts(start, rows, count, size, generator)
        nodes = np.empty((rows, count, size), dtype=np.int32)

        def walk(row: int, begin: int, end: int) -> None:
            walk_tours(
                *(neighbours[row], near[row], sums[row], weights.background, decoder.drawn),
                *(starts[row, begin:end], states[row, begin:end], nodes[row, begin:end]),
            )

        in_threads(walk, rows, count, threads)
        return nodes.astype(np.int64)
    if start is not None:
        raise ValueError("a CVRP starts at its depot: it takes no start nodes")
    assert weights.from_depot is not None and weights.to_depot is not None
    customers = np.broadcast_to(np.arange(1, size, dtype=np.int32), (rows, size - 1))
    first, first_weights, first_sums = _arrange(customers, weights.from_depot[:, 1:])
    to_depot = weights.to_depot
    demand, capacity = batch.demand.cpu().numpy(), batch.capacity.cpu().numpy()
    # The longest giant tour has one customer on each route. What is never written takes no memory.
    nodes = np.zeros((rows, count, 2 * size), dtype=np.int32)
    longest = np.zeros((rows, count), dtype=np.int64)

    def walk_block(row: int, begin: int, end: int) -> None:
        walk_routes(
            *(neighbours[row], near[row], sums[row], first[row], first_weights[row], first_sums[row]),
            *(to_depot[row], weights.background, demand[row], int(capacity[row])),
            *(
                decoder.drawn,
                decoder.drawn_at_depot,
                states[row, begin:end],
                nodes[row, begin:end],
                longest[row, begin:end],
            ),
        )

    in_threads(walk_block, rows, count, threads)
    return nodes[:, :, : int(longest.max()) + 1].astype(np.int64)


def trajectory_lengths(batch: InstanceBatch, nodes: NDArray[np.int64]) -> Tensor:
    """Return the lengths of giant tours, int64 [B, h, L], in the batch's unit square: float64 [B, h] on the CPU."""
    from nco.search.walks import plane_lengths

    coords = batch.coords.cpu().numpy().astype(np.float64)
    return torch.from_numpy(np.stack([plane_lengths(coords[row], nodes[row]) for row in range(len(batch))]))


def _arrange(
    nodes: NDArray[np.int32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights in the order of falling weights, the lower node first on ties, and the running sums."""
    by_node = np.argsort(nodes, axis=-1, kind="stable")
    order = np.take_along_axis(by_node, np.argsort(-np.take_along_axis(weights, by_node, -1), -1, kind="stable"), -1)
    arranged = np.take_along_axis(weights, order, axis=-1)
    return np.take_along_axis(nodes, order, axis=-1), arranged, arranged.cumsum(axis=-1)


def _check_fit(batch: InstanceBatch, weights: MoveWeights) -> None:
    if weights.neighbours.shape[:2] != (len(batch), batch.num_nodes) or weights.near.shape != weights.neighbours.shape:
        raise ValueError(
            f"a batch of {len(batch)} instances of {batch.num_nodes} nodes has no heat of the shape "
            f"{list(weights.near.shape)} with neighbours of the shape {list(weights.neighbours.shape)}"
        )
    if weights.near.shape[2] == 0:
        raise ValueError("a heat needs at least one neighbour of each node")
    if (batch.demand is None) != (weights.from_depot is None) or (batch.demand is None) != (weights.to_depot is None):
        raise ValueError("a CVRP's heat has that of the depot's edges, both ways, and a TSP's has not")


def _starts(
    start: Tensor | None, rows: int, count: int, size: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    if start is None:
        return generator.integers(0, size, size=(rows, count))
    starts = start.cpu().numpy()
    if starts.shape != (rows, count) or starts.min() < 0 or starts.max() >= size:
        raise ValueError(f"start nodes have the shape [{rows}, {count}] and lie between 0 and {size - 1}")
    return starts
