"""Log-probabilities of given trajectories."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from trajectory_space import all_trajectories, small_cvrp, small_tsp

from nco.instance import InstanceBatch
from nco.models.replay import move_log_probs
from nco.search.heat import BACKGROUND, SparseHeat, nearest_graph
from nco.search.sampling import SAMPLE, sample_trajectories


def random_heat(batch: InstanceBatch, k: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> SparseHeat:
    """Return random heats on the nearest neighbours."""
    generator = torch.Generator().manual_seed(seed)
    neighbours = nearest_graph(batch, k)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=dtype)

    depot = (batch.coords.shape[0], batch.num_nodes)
    ends = (draw(*depot), draw(*depot)) if batch.problem == "cvrp" else (None, None)
    return SparseHeat(neighbours, draw(*neighbours.shape), *ends)


def random_batch(problem: str, rows: int, size: int) -> InstanceBatch:
    """Return instances, each of a capacity of its own."""
    generator = torch.Generator().manual_seed(1)
    coords = torch.rand(rows, size, 2, generator=generator)
    if problem == "tsp":
        return InstanceBatch(coords)
    demand = torch.randint(1, 10, (rows, size), generator=generator)
    demand[:, 0] = 0
    return InstanceBatch(coords, demand, 10 + 7 * torch.arange(rows))


def dense(heat: SparseHeat, row: int, size: int) -> Tensor:
    """Return all weights of moves, float64 [N, N]."""
    weights = torch.zeros(size, size, dtype=torch.float64)
    weights.scatter_(1, heat.neighbours[row], heat.heat[row].double())
    if heat.from_depot is not None and heat.to_depot is not None:
        weights[0], weights[:, 0] = heat.from_depot[row], heat.to_depot[row]
    return weights + BACKGROUND


def step_by_step(batch: InstanceBatch, weights: Tensor, row: int, path: list[int], power: float) -> list[float]:
    """Walk along a trajectory with the rules of construction: the oracle."""
    is_cvrp = batch.demand is not None
    demand = batch.demand[row].tolist() if batch.demand is not None else [0] * batch.num_nodes
    capacity = int(batch.capacity[row]) if batch.capacity is not None else 0
    open_nodes, room = set(range(int(is_cvrp), batch.num_nodes)) - {path[0]}, capacity
    found = []
    for tail, head in pairwise(path):
        if is_cvrp and tail == 0:
            room = capacity
            if head == 0:
                found.append(0.0)
                continue
        choices = [node for node in open_nodes if demand[node] <= room] + [0] * (is_cvrp and tail != 0)
        assert head in choices
        found.append(float((weights[tail, head] ** power / (weights[tail, choices] ** power).sum()).log()))
        open_nodes.discard(head)
        room -= demand[head]
    return found


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize(("k", "power"), [(3, 1.0), (3, 0.8), (20, 1.0)])
def test_probabilities_are_those_of_a_walk(problem: str, k: int, power: float) -> None:
    """Moves along and outside of the graph, forced and padded ones, at two temperatures."""
    batch = random_batch(problem, 3, 13)
    heat = random_heat(batch, k)
    nodes = sample_trajectories(batch, heat, 5, SAMPLE, np.random.default_rng(0)).nodes
    found = move_log_probs(batch, heat, nodes, power)
    for row in range(3):
        weights = dense(heat, row, 13)
        for ant in range(5):
            wanted = step_by_step(batch, weights, row, nodes[row, ant].tolist(), power)
            torch.testing.assert_close(found[row, ant], torch.tensor(wanted, dtype=torch.float64), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("batch", [small_tsp(5), small_cvrp(4, 4), small_cvrp(3, 100)], ids=["tsp", "tight", "roomy"])
def test_probabilities_of_all_trajectories_add_up_to_one(batch: InstanceBatch) -> None:
    """The policy is normalised: of a TSP for each first node."""
    heat = random_heat(batch, 2)
    total = move_log_probs(batch, heat, all_trajectories(batch)).sum(dim=-1).exp().sum()
    assert float(total) == pytest.approx(batch.num_nodes if batch.problem == "tsp" else 1.0, rel=1e-9)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_chunks_change_neither_values_nor_gradients(problem: str) -> None:
    """Trajectories that are replayed one by one, with recomputation, give the same."""
    batch = random_batch(problem, 2, 9)
    heat = random_heat(batch, 3)
    nodes = sample_trajectories(batch, heat, 4, SAMPLE, np.random.default_rng(0)).nodes
    results = []
    for most_terms in (10**9, 1):
        values = heat.heat.clone().requires_grad_()
        found = move_log_probs(
            batch, SparseHeat(heat.neighbours, values, heat.from_depot, heat.to_depot), nodes, 1.0, most_terms
        )
        found.square().sum().backward()
        results.append((found.detach(), values.grad))
    torch.testing.assert_close(*results)


def test_gradients_of_vanishing_heats_are_finite() -> None:
    """Heats of zero, in single precision, leave the background."""
    batch = random_batch("cvrp", 1, 8)
    heat = random_heat(batch, 3, dtype=torch.float32)
    values = torch.zeros_like(heat.heat).requires_grad_()
    heat = SparseHeat(heat.neighbours, values, heat.from_depot, heat.to_depot)
    nodes = sample_trajectories(batch, heat, 3, SAMPLE, np.random.default_rng(0)).nodes
    move_log_probs(batch, heat, nodes).sum().backward()
    assert values.grad is not None and bool(torch.isfinite(values.grad).all())
