"""Greedy decoding by appending."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nco.instance import Instance, InstanceBatch
from nco.search.appending import OpenPaths, append_greedily, append_paths
from nco.search.candidates import Candidates, nearest_first
from nco.search.insertion import nearest_neighbour
from nco.solution import check_routes, split_giant_tour


def instances(problem: str, size: int, rows: int, seed: int = 0) -> list[Instance]:
    """Return uniform instances; a CVRP's capacities differ and are tight."""
    rng = np.random.default_rng([size, seed])
    made = []
    for row in range(rows):
        coords = rng.random((size, 2))
        if problem == "tsp":
            made.append(Instance(f"{row}", "tsp", coords))
        else:
            demand = np.concatenate([[0], rng.integers(0, 10, size - 1)])
            made.append(Instance(f"{row}", "cvrp", coords, demand=demand, capacity=int(rng.integers(9, 40))))
    return made


@pytest.mark.parametrize("k", [None, 1, 5, 200])
def test_by_distance_a_tsp_is_built_as_by_nearest_neighbour(k: int | None) -> None:
    """From node 0 on, whatever the number of candidates."""
    batch = InstanceBatch.from_instances(instances("tsp", 60, 4))
    for coords, tour in zip(batch.coords, append_greedily(batch, nearest_first, k), strict=True):
        assert tour.tolist() == nearest_neighbour(coords.double().numpy()).tolist()


def test_by_distance_a_cvrp_is_built_as_by_nearest_neighbour() -> None:
    """With capacities of each row's own, and home when nothing fits."""
    made = instances("cvrp", 60, 4)
    batch = InstanceBatch.from_instances(made)
    for row, tour in enumerate(append_greedily(batch, nearest_first).numpy()):
        coords = batch.coords[row].double().numpy()
        wanted = nearest_neighbour(coords, 0, made[row].demand, made[row].capacity)
        routes = zip(split_giant_tour("cvrp", tour), split_giant_tour("cvrp", wanted), strict=True)
        assert all(ours.tolist() == theirs.tolist() for ours, theirs in routes)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    size=st.integers(2, 30),
    rows=st.integers(1, 4),
    k=st.one_of(st.none(), st.integers(1, 12)),
    problem=st.sampled_from(["tsp", "cvrp"]),
    seed=st.integers(0, 10**6),
)
def test_any_scorer_gives_feasible_tours(size: int, rows: int, k: int | None, problem: str, seed: int) -> None:
    """Random scores of the allowed moves: every customer once, and no route above the capacity."""
    made = instances(problem, size, rows, seed)
    generator = torch.Generator().manual_seed(seed)

    def score(candidates: Candidates) -> Tensor:
        allowed = candidates.mask
        if candidates.fits is not None:
            allowed = torch.cat([candidates.mask & candidates.fits, candidates.mask], dim=1)
        return torch.where(allowed, torch.rand(allowed.shape, generator=generator), -torch.inf)

    tours = append_greedily(InstanceBatch.from_instances(made), score, k)
    for instance, tour in zip(made, tours, strict=True):
        check_routes(instance, split_giant_tour(problem, tour))


def test_candidates_are_the_nearest_open_nodes_and_what_fits_is_exact() -> None:
    """What a scorer sees of a CVRP, followed step by step on plain lists."""
    (instance,) = instances("cvrp", 25, 1, 3)
    assert instance.demand is not None and instance.capacity is not None
    batch = InstanceBatch.from_instances([instance])
    coords = batch.coords[0].double().numpy()
    open_nodes, last, room = set(range(1, 25)), 0, instance.capacity

    def score(candidates: Candidates) -> Tensor:
        nonlocal last, room
        near = sorted(open_nodes, key=lambda node: float(((coords[node] - coords[last]) ** 2).sum()))[:6]
        assert torch.equal(candidates.nodes[0, :, :2], batch.coords[0, near])
        assert torch.equal(candidates.first[0, :2], batch.coords[0, 0])
        assert torch.equal(candidates.last[0, :2], batch.coords[0, last])
        assert candidates.fits is not None and candidates.remaining is not None
        assert candidates.fits[0].tolist() == [int(instance.demand[node]) <= room for node in near]  # type: ignore[index]
        assert candidates.remaining[0].item() == pytest.approx(room / instance.capacity)  # type: ignore[operator]
        # The farthest candidate, via the depot at every third step or where it does not fit.
        last, via_depot = near[-1], len(open_nodes) % 3 == 0 or not bool(candidates.fits[0, -1])
        room = (instance.capacity if via_depot else room) - int(instance.demand[last])  # type: ignore[index, operator]
        open_nodes.remove(last)
        scores = torch.full((1, 2 * len(near)), -torch.inf)
        scores[0, len(near) * (1 + via_depot) - 1] = 0.0
        return scores

    append_greedily(batch, score, 6)
    assert not open_nodes


def test_paths_of_different_sizes_are_built_as_if_alone() -> None:
    """Rows that end earlier, in any order, do not touch one another."""
    rng = np.random.default_rng(5)
    nodes, ends = rng.random((5, 12, 2), dtype=np.float32), rng.random((2, 5, 2), dtype=np.float32)
    sizes = np.array([3, 12, 1, 7, 12])
    order, _ = append_paths(OpenPaths(ends[0], ends[1], nodes, sizes), nearest_first, 4)
    for row, size in enumerate(sizes):
        alone = OpenPaths(ends[0, [row]], ends[1, [row]], nodes[[row], :size], sizes[[row]])
        assert order[row].tolist() == append_paths(alone, nearest_first)[0][0].tolist() + [-1] * (12 - size)


@pytest.mark.parametrize("fault", ["nothing", "nan", "no-room"])
def test_a_scorer_that_chooses_no_move_is_an_error(fault: str) -> None:
    """All moves forbidden, not a number, or a customer that does not fit."""
    batch = InstanceBatch(torch.rand(2, 6, 2), torch.tensor([[0, 2, 2, 2, 2, 2]] * 2), torch.tensor([3, 30]))

    def score(candidates: Candidates) -> Tensor:
        scores = torch.zeros(len(candidates), 2 * candidates.mask.shape[1])
        if fault != "no-room":
            scores[1] = torch.nan if fault == "nan" else -torch.inf
        return scores

    row, step = (0, 1) if fault == "no-room" else (1, 0)
    with pytest.raises(ValueError, match=f"row {row}: the scorer allows no candidate at step {step}"):
        append_greedily(batch, score)
