"""Ants: rounds of trajectories along a heat and along the pheromone of earlier rounds, each improved by local search.

Pheromone lies on the edges of the sparse graph only. On a dense matrix, as released, it would evaporate from all the
others but the few that trajectories have used in spite of their heat; here it evaporates from all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nco.instance import Instance, InstanceBatch
from nco.search.heat import SparseHeat
from nco.search.insertion import random_insertion
from nco.search.sampling import Decoder, MoveWeights, sample_nodes, trajectory_lengths
from nco.search.tsp_local_search import in_threads

# From giant tours int64 [B, h, L] to improved ones, int64 [B, h, L'].
Improve = Callable[[NDArray[np.int64], np.random.Generator], NDArray[np.int64]]

PHEROMONES = ("as", "elitist", "max-min", "none")
_LEAST_PHEROMONE = 1e-10
# Where all points coincide tours have no length.
_LEAST_LENGTH = 1e-9


@dataclass(frozen=True)
class ColonyRule:
    """How ants choose and what they leave behind.

    Attributes
    ----------
    pheromone : str
        "as": all ants of a round leave pheromone, the better ones more. "elitist": the best tour so far counts as so
        many ants again. "max-min": only the best tour so far, and pheromone keeps within bounds (Stützle and Hoos
        2000). "none": no ant learns from another.
    decay : float
        Share of the pheromone that stays from round to round.
    alpha, beta : float
        A move's weight is pheromone ** alpha * heat ** beta.
    """

    pheromone: str = "as"
    decay: float = 0.9
    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        if self.pheromone not in PHEROMONES:
            raise ValueError(f"unknown pheromone {self.pheromone!r}; known are {', '.join(PHEROMONES)}")
        if not 0.0 <= self.decay <= 1.0:
            raise ValueError(f"the decay lies between 0 and 1, not at {self.decay}")


class Starts(Protocol):
    """Where the tours of a round come from."""

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return giant tours, int64 [B, h, L]."""
        ...

    def learn(self, tours: NDArray[np.int64]) -> None:
        """Take in the tours of a round after local search, int64 [B, h, L]."""
        ...


class RandomInsertions:
    """Tours of random insertion, which learns nothing: the control that stands in for ants.

    Parameters
    ----------
    instances : sequence of B Instance
        Of one problem and size.
    count : int
        Tours of each instance in a round, h.
    threads : int
    """

    def __init__(self, instances: Sequence[Instance], count: int, threads: int = 1):
        self._instances = list(instances)
        self._count = count
        self._threads = threads

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return giant tours, int64 [B, h, L]."""
        problem, size = self._instances[0].problem, self._instances[0].num_nodes
        rngs = rng.spawn(len(self._instances) * self._count)
        tours = np.zeros((len(self._instances), self._count, size if problem == "tsp" else 2 * size), np.int64)

        def build(row: int, first: int, last: int) -> None:
            instance = self._instances[row]
            for ant in range(first, last):
                own = rngs[row * self._count + ant]
                tour = random_insertion(instance.network_coords, own, instance.demand, instance.capacity)
                tours[row, ant, : len(tour)] = tour

        in_threads(build, len(self._instances), self._count, self._threads)
        return tours

    def learn(self, tours: NDArray[np.int64]) -> None:
        """Do nothing."""


class Colony:
    """Ants on a heat.

    Parameters
    ----------
    batch : InstanceBatch
    heat : SparseHeat
        Of the same instances.
    count : int
        Ants of each instance, h.
    decoder : Decoder
    rule : ColonyRule
    threads : int
    """

    def __init__(
        self,
        batch: InstanceBatch,
        heat: SparseHeat,
        count: int,
        decoder: Decoder,
        rule: ColonyRule = ColonyRule(),
        threads: int = 1,
    ):
        self._batch = batch
        self._weights = MoveWeights.from_heat(heat, rule.beta)
        self._count = count
        self._decoder = decoder
        self._rule = rule
        self._threads = threads
        # One array for all edges of an instance: those to the k neighbours, from the depot and to it.
        rows, size, width = self._weights.near.shape
        self._pheromone = np.ones((rows, size, width + 2 * (batch.problem == "cvrp")))
        self._background = 1.0
        self._best_length = np.full(rows, np.inf)
        self._best: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * rows

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return giant tours, int64 [B, h, L]."""
        return sample_nodes(self._batch, self._move_weights(), self._count, self._decoder, rng, threads=self._threads)

    def learn(self, tours: NDArray[np.int64]) -> None:
        """Let pheromone evaporate, and the ants leave theirs on the edges of their tours."""
        rule = self._rule
        if rule.pheromone == "none":
            return
        lengths = np.maximum(trajectory_lengths(self._batch, tours).numpy(), _LEAST_LENGTH)
        for row, best in enumerate(lengths.argmin(axis=1)):
            if lengths[row, best] < self._best_length[row]:
                self._best_length[row] = lengths[row, best]
                self._best[row] = tours[row, best]
        self._pheromone *= rule.decay
        self._background *= rule.decay
        deposit = self._deposit_best if rule.pheromone == "max-min" else self._deposit_all
        for row in range(len(tours)):
            deposit(row, tours[row], lengths[row])

    def _deposit_all(self, row: int, tours: NDArray[np.int64], lengths: NDArray[np.float64]) -> None:
        """Deposit 1 / length of each tour, shifted so that the total pheromone of a dense matrix stays the same.

        The shift is that of GFACS: on average an ant leaves on each of its edges, in a TSP in both directions, what
        evaporates of a matrix of ones over the edges of all ants.
        """
        size = self._batch.num_nodes
        amounts = 1.0 / lengths
        if self._rule.pheromone == "elitist":
            amounts = np.append(amounts, np.full(len(tours), 1.0 / self._best_length[row]))
        evaporated = (1.0 - self._rule.decay) * size * size
        directions = 2 if self._batch.problem == "tsp" else 1
        amounts += evaporated / (directions * len(amounts) * tours.shape[1]) - amounts.mean()
        self._add(row, tours, amounts[: len(tours)])
        if self._rule.pheromone == "elitist":
            self._add(row, self._best[row][None], amounts[len(tours) :].sum(keepdims=True))
        np.maximum(self._pheromone[row], _LEAST_PHEROMONE, out=self._pheromone[row])

    def _deposit_best(self, row: int, tours: NDArray[np.int64], lengths: NDArray[np.float64]) -> None:
        """Deposit 1 / length of the best tour so far, and keep to the bounds: the fixed point of an edge that is always
        on it, and that over twice the number of nodes.
        """
        amount = 1.0 / self._best_length[row]
        self._add(row, self._best[row][None], np.array([amount]))
        most = amount / max(1.0 - self._rule.decay, _LEAST_PHEROMONE)
        np.clip(self._pheromone[row], most / (2 * self._batch.num_nodes), most, out=self._pheromone[row])

    def _add(self, row: int, tours: NDArray[np.int64], amounts: NDArray[np.float64]) -> None:
        add_pheromone(
            self._weights.neighbours[row], self._pheromone[row], tours, amounts, self._batch.problem == "cvrp"
        )

    def _move_weights(self) -> MoveWeights:
        weights, alpha = self._weights, self._rule.alpha
        width = weights.near.shape[2]
        strength = self._pheromone**alpha
        first, last = weights.from_depot, weights.to_depot
        return MoveWeights(
            weights.neighbours,
            weights.near * strength[:, :, :width],
            None if first is None else first * strength[:, :, width],
            None if last is None else last * strength[:, :, width + 1],
            weights.background * self._background**alpha,
        )


@njit(cache=True, nogil=True)
def add_pheromone(neighbours, pheromone, tours, amounts, is_cvrp):  # type: ignore[no-untyped-def]
    """Add amounts, float64 [h], to the edges of tours, int64 [h, L], where the graph has them.

    A TSP's edges get them in both directions. A CVRP's get them as they were travelled: otherwise what follows the
    depot would seem a good place to return from, and routes would become ever shorter. ``pheromone`` is float64 [N, k],
    and for a CVRP [N, k + 2], the last two columns for the edges from the depot and to it.
    """
    width = neighbours.shape[1]
    for ant in range(len(tours)):
        for step in range(tours.shape[1]):
            tail, head = tours[ant, step - 1], tours[ant, step]
            if is_cvrp and (tail == 0 or head == 0):
                if tail != head:
                    pheromone[tail + head, width + (head == 0)] += amounts[ant]
                continue
            for k in range(width):
                if neighbours[tail, k] == head:
                    pheromone[tail, k] += amounts[ant]
                if not is_cvrp and neighbours[head, k] == tail:
                    pheromone[head, k] += amounts[ant]


@dataclass
class RoundLog:
    """What rounds have done.

    Attributes
    ----------
    rounds : int
    points : list of (float, float64 [B])
        Seconds since the start and the least cost so far of each instance, after each round.
    """

    rounds: int = 0
    points: list[tuple[float, NDArray[np.float64]]] = field(default_factory=list)


def run_rounds(
    instances: Sequence[Instance],
    starts: Starts,
    rounds: int,
    rng: np.random.Generator,
    *,
    improve: Improve | None = None,
    time_limit: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[NDArray[np.int64]], RoundLog]:
    """Draw tours, improve them and learn from them, round after round; return the best tour of each instance.

    Parameters
    ----------
    instances : sequence of B Instance
        Of one problem and size; they say what a tour costs.
    starts : Starts
    rounds : int
        At least 1.
    rng : numpy.random.Generator
    improve : callable, optional
        A local search.
    time_limit : float, optional
        Wall-clock seconds, after which no further round begins. The first one is always made.
    progress : callable, optional
        Called with the number of rounds done.

    Returns
    -------
    list of int64 [L]
        Giant tours.
    RoundLog
    """
    began = time.perf_counter()
    log = RoundLog()
    best: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(instances)
    least = np.full(len(instances), np.inf)
    while log.rounds < rounds and (log.rounds == 0 or time_limit is None or time.perf_counter() - began < time_limit):
        tours = starts.draw(rng)
        if improve is not None:
            tours = improve(tours, rng)
        for row, instance in enumerate(instances):
            costs = _costs(instance, tours[row])
            winner = int(costs.argmin())
            if costs[winner] < least[row]:
                least[row], best[row] = costs[winner], tours[row, winner].copy()
        log.rounds += 1
        log.points.append((time.perf_counter() - began, least.copy()))
        if progress is not None:
            progress(log.rounds)
        if log.rounds < rounds:
            starts.learn(tours)
    return best, log


def _costs(instance: Instance, tours: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the costs of giant tours, int64 [h, L], in the instance's own metric: float64 [h]."""
    heads = np.roll(tours, -1, axis=1)
    return np.where(tours == heads, 0.0, instance.edge_lengths(tours, heads)).sum(axis=1)
