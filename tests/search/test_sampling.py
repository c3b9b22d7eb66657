"""Sampled construction against dense oracles, the released greedy paths and exact distributions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from nco.envs import CVRPEnv, TSPEnv
from nco.instance import InstanceBatch
from nco.search.heat import BACKGROUND, SparseHeat, distance_heat
from nco.search.sampling import (
    AGFN_COIN,
    DEPOT_GUIDED,
    GREEDY,
    SAMPLE,
    Decoder,
    MoveWeights,
    epsilon,
    sample_nodes,
    sample_trajectories,
)


def uniform(problem: str, rows: int, size: int, capacity: int = 12) -> InstanceBatch:
    """Return uniform instances, with demands from 0 to 9."""
    rng = np.random.default_rng([rows, size])
    coords = torch.from_numpy(rng.random((rows, size, 2))).float()
    if problem == "tsp":
        return InstanceBatch(coords)
    demand = torch.from_numpy(rng.integers(0, 10, (rows, size)))
    demand[:, 0] = 0
    return InstanceBatch(coords, demand, torch.full((rows,), capacity))


def random_weights(batch: InstanceBatch, k: int, rng: np.random.Generator, levels: int | None = None) -> MoveWeights:
    """Return random weights of a random graph; with ``levels``, of so many values, so that many are tied."""

    def draw(*shape: int) -> np.ndarray:
        return rng.random(shape) + 0.05 if levels is None else rng.integers(1, levels + 1, shape) / levels

    rows, size, first = len(batch), batch.num_nodes, int(batch.problem == "cvrp")
    neighbours = np.zeros((rows, size, k), dtype=np.int32)
    for row in range(rows):
        for node in range(first, size):
            others = [other for other in range(first, size) if other != node]
            neighbours[row, node] = rng.permutation(others)[:k]
    depot = (draw(rows, size), draw(rows, size)) if first else (None, None)
    return MoveWeights(neighbours, draw(rows, size, k), *depot, background=0.5 if levels else 0.2)


def dense(weights: MoveWeights, row: int) -> np.ndarray:
    """Return the weights of all moves of an instance, float64 [N, N]."""
    size = weights.near.shape[1]
    matrix = np.full((size, size), weights.background)
    np.put_along_axis(matrix, weights.neighbours[row].astype(np.int64), weights.near[row], axis=1)
    if weights.from_depot is not None:
        matrix[0], matrix[:, 0] = weights.from_depot[row], weights.to_depot[row]
    return matrix


def choices(batch: InstanceBatch, row: int, path: list[int]) -> np.ndarray:
    """Return which nodes may follow a path, bool [N]; none when it is complete."""
    allowed = np.ones(batch.num_nodes, dtype=bool)
    allowed[path] = False
    if batch.problem == "cvrp":
        demand, load = batch.demand[row].numpy(), 0
        for node in path:
            load = 0 if node == 0 else load + demand[node]
        is_open = allowed.copy()
        allowed &= load + demand <= int(batch.capacity[row])
        allowed[0] = path[-1] != 0 and is_open[1:].any()
    return allowed


def greedy_path(batch: InstanceBatch, weights: MoveWeights, row: int, start: int) -> list[int]:
    """Follow the largest weight of the dense matrix, the lowest node on ties."""
    matrix, path = dense(weights, row), [start]
    while (allowed := choices(batch, row, path)).any():
        path.append(int(np.where(allowed, matrix[path[-1]], -1.0).argmax()))
    return path


def distribution(batch: InstanceBatch, matrix: np.ndarray, path: list[int], share: float = 1.0) -> dict:
    """Return the probability of each complete path by the dense matrix."""
    allowed = choices(batch, 0, path)
    if not allowed.any():
        return {tuple(path): share}
    weights = np.where(allowed, matrix[path[-1]], 0.0)
    found: dict = {}
    for node in np.flatnonzero(allowed):
        found |= distribution(batch, matrix, [*path, int(node)], share * weights[node] / weights.sum())
    return found


def stripped(batch: InstanceBatch, tour: np.ndarray) -> tuple[int, ...]:
    """Return a giant tour without the zeros at its end."""
    return tuple(tour) if batch.problem == "tsp" else (0, *np.trim_zeros(tour).tolist())


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.sampled_from(["tsp", "cvrp"]), st.integers(3, 9), st.integers(1, 7), st.integers(0, 10**6))
def test_greedy_is_the_argmax_of_the_dense_matrix(problem: str, size: int, k: int, seed: int) -> None:
    """With many ties, and a background that outweighs some neighbours, paths are those of a dense decoder."""
    batch, rng = uniform(problem, 2, size), np.random.default_rng(seed)
    weights = random_weights(batch, min(k, size - 1 - (problem == "cvrp")), rng, levels=4)
    start = None if problem == "cvrp" else torch.tensor([[0], [size - 1]])
    nodes = sample_nodes(batch, weights, 1, GREEDY, rng, start=start)
    for row in range(2):
        first = 0 if start is None else int(start[row, 0])
        assert stripped(batch, nodes[row, 0]) == tuple(greedy_path(batch, weights, row, first))


@pytest.mark.parametrize(("problem", "size", "k"), [("tsp", 5, 1), ("tsp", 5, 3), ("cvrp", 5, 1), ("cvrp", 5, 2)])
def test_paths_are_drawn_with_the_probabilities_of_the_dense_matrix(problem: str, size: int, k: int) -> None:
    """The frequency of each path is within five standard errors of its exact probability."""
    batch, rng, count = uniform(problem, 1, size), np.random.default_rng(k), 100_000
    weights = random_weights(batch, k, rng)
    start = None if problem == "cvrp" else torch.zeros(1, count, dtype=torch.int64)
    nodes = sample_nodes(batch, weights, count, SAMPLE, rng, start=start)
    counts = Counter(stripped(batch, tour) for tour in nodes[0])
    exact = distribution(batch, dense(weights, 0), [0])
    assert counts.keys() <= exact.keys()
    assert sum(exact.values()) == pytest.approx(1.0)
    for path, share in exact.items():
        assert abs(counts[path] / count - share) < 5 * np.sqrt(share * (1 - share) / count) + 1e-9


def test_a_move_outside_of_the_graph_is_made_where_no_other_is_left() -> None:
    """From a node whose neighbours are all visited, the others are equally likely."""
    batch = uniform("tsp", 1, 6)
    neighbours = torch.tensor([[[1], [0], [3], [2], [5], [4]]])
    heat = SparseHeat(neighbours, torch.full((1, 6, 1), 0.9))
    start = torch.zeros(1, 30_000, dtype=torch.int64)
    nodes = sample_trajectories(batch, heat, 30_000, SAMPLE, np.random.default_rng(0), start=start).nodes[0]
    assert (nodes[:, 1] == 1).all()
    share = np.bincount(nodes[:, 2], minlength=6) / 30_000
    assert share[2:] == pytest.approx(0.25, abs=0.015)


def test_greedy_paths_are_those_of_the_released_program(shared: Path) -> None:
    """With the stored heats of HBG-AGFN, all 16 paths on CVRP200 are the same, ties included, and so are the costs."""
    stored = load_file(shared / "parity" / "hbg_agfn_cvrp200_greedy.safetensors")
    rows, size, k = stored["knn"].shape
    coords = torch.cat([stored["depot"][:, None], stored["customers"]], dim=1).float()
    demand = torch.nn.functional.pad(stored["demand"].long(), (1, 0))
    batch = InstanceBatch(coords, demand, torch.full((rows,), 50))
    near, first, last = stored["heat"].split([size * k, size, size], dim=1)
    heat = SparseHeat(
        torch.nn.functional.pad(stored["knn"].long(), (0, 0, 1, 0)),
        torch.nn.functional.pad(near.view(rows, size, k), (0, 0, 1, 0)),
        torch.nn.functional.pad(first, (1, 0)),
        torch.nn.functional.pad(last, (1, 0)),
    )
    found = sample_trajectories(batch, heat, 1, GREEDY, np.random.default_rng(0))
    length = min(found.nodes.shape[2], stored["path"].shape[1])
    assert torch.equal(found.nodes[:, 0, :length], stored["path"][:, :length].long())
    assert found.nodes[:, 0, length:].sum() == stored["path"][:, length:].sum() == 0
    assert found.costs[:, 0].numpy() == pytest.approx(stored["cost"].numpy(), abs=1e-5)


@pytest.mark.parametrize("decoder", [SAMPLE, GREEDY, AGFN_COIN, DEPOT_GUIDED, epsilon(0.5)])
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_trajectories_are_feasible_giant_tours(problem: str, decoder: Decoder) -> None:
    """The environments accept each one and agree on its cost; a CVRP's ends with two zeros and has no empty route."""
    batch = uniform(problem, 3, 30)
    found = sample_trajectories(batch, distance_heat(batch, 5), 7, decoder, np.random.default_rng(0))
    env = TSPEnv() if problem == "tsp" else CVRPEnv()
    for ant in range(7):
        env.check(batch, found.nodes[:, ant])
        assert found.costs[:, ant].numpy() == pytest.approx(env.cost(batch, found.nodes[:, ant]).numpy(), rel=1e-5)
    if problem == "cvrp":
        assert (found.nodes[:, :, 0] == 0).all() and (found.nodes[:, :, -2:] == 0).all()
        for tour in found.nodes.flatten(0, 1).numpy():
            path = np.array(stripped(batch, tour))
            assert not ((path[1:] == 0) & (path[:-1] == 0)).any()


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_trajectories_do_not_depend_on_threads(problem: str) -> None:
    """One seed gives the same nodes with one thread and three; another seed gives others."""
    batch = uniform(problem, 3, 40)
    heat = distance_heat(batch, 5)

    def nodes(seed: int, threads: int) -> torch.Tensor:
        return sample_trajectories(batch, heat, 10, SAMPLE, np.random.default_rng(seed), threads=threads).nodes

    assert torch.equal(nodes(1, 1), nodes(1, 3))
    assert not torch.equal(nodes(1, 1)[:, :, :40], nodes(2, 1)[:, :, :40])


def test_each_trajectory_tosses_its_own_coin() -> None:
    """With epsilon decoding from one start, the first step is drawn about as often as the coin says."""
    batch, count = uniform("tsp", 1, 6), 20_000
    weights = MoveWeights(
        np.array([[[(node + step) % 6 for step in range(1, 6)] for node in range(6)]], dtype=np.int32),
        np.tile([[[2.0, 1.0, 1.0, 1.0, 1.0]]], (1, 6, 1)),
        None,
        None,
        BACKGROUND,
    )
    start = torch.zeros(1, count, dtype=torch.int64)
    nodes = sample_nodes(batch, weights, count, epsilon(0.3), np.random.default_rng(0), start=start)
    # Drawn, the hottest node comes in a third of the cases.
    assert (nodes[0, :, 1] == 1).mean() == pytest.approx(0.7 + 0.3 / 3, abs=0.02)


def test_depot_guided_draws_at_the_depot_alone() -> None:
    """First customers are drawn, and what follows a customer is greedy."""
    batch = uniform("cvrp", 1, 12, capacity=25)
    weights = random_weights(batch, 4, np.random.default_rng(0))
    nodes = sample_nodes(batch, weights, 500, DEPOT_GUIDED, np.random.default_rng(1))
    assert len(set(nodes[0, :, 1])) == 11
    matrix = dense(weights, 0)
    for tour in nodes[0]:
        path = stripped(batch, tour)
        for step in range(1, len(path)):
            if path[step - 1] != 0:
                allowed = choices(batch, 0, list(path[:step]))
                assert path[step] == np.where(allowed, matrix[path[step - 1]], -1.0).argmax()


def test_the_inverse_temperature_is_an_exponent() -> None:
    """At 2 the weights are squared."""
    heat = SparseHeat(torch.tensor([[[1], [0]]]), torch.tensor([[[0.5], [0.25]]]))
    assert MoveWeights.from_heat(heat, 2.0).near[0, :, 0] == pytest.approx([0.25, 0.0625])


def test_a_single_customer_and_full_demands_make_routes_of_one() -> None:
    """Each customer as large as the vehicle goes alone, however many there are."""
    for customers in (2, 5):
        batch = InstanceBatch(
            torch.rand(1, customers + 1, 2, generator=torch.Generator().manual_seed(0)),
            torch.tensor([[0] + [7] * customers]),
            torch.tensor([7]),
        )
        found = sample_trajectories(batch, distance_heat(batch, 1), 4, SAMPLE, np.random.default_rng(0))
        assert found.nodes.shape[2] == 2 * customers + 2
        assert (found.nodes[:, :, ::2] == 0).all()


def test_what_does_not_fit_is_refused() -> None:
    """Heats of other sizes or without neighbours, start nodes of a CVRP and impossible coins are clear errors."""
    batch, rng = uniform("cvrp", 2, 6), np.random.default_rng(0)
    heat = distance_heat(batch, 2)
    with pytest.raises(ValueError, match="batch of 1 instances of 6 nodes has no heat of the shape"):
        sample_trajectories(batch[:1], heat, 1, SAMPLE, rng)
    with pytest.raises(ValueError, match="CVRP's heat has that of the depot's edges"):
        sample_trajectories(batch, SparseHeat(heat.neighbours, heat.heat), 1, SAMPLE, rng)
    with pytest.raises(ValueError, match="takes no start nodes"):
        sample_trajectories(batch, heat, 1, SAMPLE, rng, start=torch.zeros(2, 1, dtype=torch.int64))
    with pytest.raises(ValueError, match="at least one neighbour"):
        sample_trajectories(uniform("cvrp", 1, 2), distance_heat(uniform("cvrp", 1, 2), 3), 1, SAMPLE, rng)
    tsp = uniform("tsp", 1, 5)
    with pytest.raises(ValueError, match="start nodes have the shape"):
        sample_trajectories(tsp, distance_heat(tsp, 2), 1, SAMPLE, rng, start=torch.full((1, 1), 5))
    with pytest.raises(ValueError, match="between 0 and 1"):
        epsilon(1.5)
