"""Random re-construct: segments of solutions, cut, rebuilt and accepted on their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nco.errors import UsageError
from nco.instance import Instance, InstanceBatch
from nco.search.candidates import Candidates, nearest_first
from nco.search.segments import SegmentRule, cut_segments, reconstruct_segments
from nco.search.sequences import Sequences
from nco.solution import check_routes, giant_tour, routes_cost, split_giant_tour
from nco.solvers import make_solver


def start_from(problem: str, size: int, rows: int, seed: int, metric: str = "EXACT") -> tuple[list[Instance], Tensor]:
    """Return instances and random solutions, as giant tours."""
    rng = np.random.default_rng([size, seed])
    instances, tours = [], []
    for row in range(rows):
        coords = rng.random((size, 2)) * (1 if metric == "EXACT" else 1_000)
        if problem == "tsp":
            instances.append(Instance(f"{row}", "tsp", coords, metric))
            tours.append(rng.permutation(size))
            continue
        demand = np.concatenate([[0], rng.integers(0, 10, size - 1)])
        capacity = int(rng.integers(9, 40))
        instances.append(Instance(f"{row}", "cvrp", coords, metric, demand=demand, capacity=capacity))
        routes: list[list[int]] = []
        for node in rng.permutation(size - 1) + 1:
            if not routes or demand[[*routes[-1], node]].sum() > capacity or rng.random() < 0.1:
                routes.append([])
            routes[-1].append(int(node))
        tours.append(giant_tour("cvrp", routes, 2 * size - 1))
    return instances, torch.from_numpy(np.stack(tours))


def random_moves(generator: torch.Generator):  # type: ignore[no-untyped-def]
    """Return a scorer that likes the moves that are allowed at random."""

    def score(candidates: Candidates) -> Tensor:
        allowed = candidates.mask
        if candidates.fits is not None:
            allowed = torch.cat([candidates.mask & candidates.fits, candidates.mask], dim=1)
        return torch.where(allowed, torch.rand(allowed.shape, generator=generator), -torch.inf)

    return score


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    problem=st.sampled_from(["tsp", "cvrp"]),
    size=st.integers(2, 25),
    high=st.integers(2, 40),
    single=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_solutions_stay_feasible_and_costs_exact(problem: str, size: int, high: int, single: bool, seed: int) -> None:
    """With random moves: the logged costs are those of the tours and never rise."""
    instances, tours = start_from(problem, size, 3, seed)
    tours, log = reconstruct_segments(
        instances,
        InstanceBatch.from_instances(instances),
        tours,
        random_moves(torch.Generator().manual_seed(seed)),
        np.random.default_rng(seed),
        k=4,
        rule=SegmentRule((2, high), single),
        iterations=6,
    )
    costs = np.stack([point[1] for point in log.points])
    assert (np.diff(costs, axis=0) <= 0).all()
    for row, instance in enumerate(instances):
        routes = split_giant_tour(problem, tours[row])
        check_routes(instance, routes)
        assert costs[-1, row] == pytest.approx(routes_cost(instance, [route for route in routes if len(route)]))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    problem=st.sampled_from(["tsp", "cvrp"]),
    size=st.integers(3, 40),
    sizes=st.tuples(st.integers(2, 6), st.integers(6, 30)),
    seed=st.integers(0, 10**6),
)
def test_segments_are_disjoint_and_within_their_size(
    problem: str, size: int, sizes: tuple[int, int], seed: int
) -> None:
    """No place belongs to two segments; a TSP keeps a node between two; a CVRP's end where a route ends."""
    _, tours = start_from(problem, size, 4, seed)
    solutions = Sequences.from_tours(problem, tours.numpy())
    segments = cut_segments(solutions, SegmentRule(sizes), np.random.default_rng(seed))
    assert (segments.size <= sizes[1]).all()
    assert (segments.size >= 2).all()
    count = solutions.nodes.shape[1]
    taken = np.zeros((4, count + 1), dtype=int)
    for row, begin, length in zip(segments.instance, segments.begin, segments.size, strict=True):
        end = begin + length
        taken[row, begin : end + (problem == "tsp")] += 1
        assert end <= count
        if solutions.begins is not None:
            assert end == count or solutions.begins[row, end]
    assert taken.max(initial=0) <= 1


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_turning_changes_no_route(problem: str) -> None:
    """The same routes, in another order and perhaps backwards, and the same tours of a TSP."""
    _, tours = start_from(problem, 15, 6, 1)
    rng = np.random.default_rng(0)
    solutions = Sequences.from_tours(problem, tours.numpy())
    for _ in range(5):
        solutions = solutions.turned(rng)
    for before, after in zip(tours.numpy(), solutions.tours(), strict=True):
        if problem == "tsp":
            edges = [{frozenset(edge) for edge in zip(tour, np.roll(tour, 1), strict=True)} for tour in (before, after)]
        else:
            edges = [
                {min(tuple(route), tuple(route[::-1])) for route in map(list, split_giant_tour("cvrp", tour))}  # type: ignore[misc]
                for tour in (before, after)
            ]
        assert edges[0] == edges[1]


def test_a_segment_with_a_better_order_is_repaired() -> None:
    """Points on a line in a bad order: the nearest neighbour finds the way along it, and the tour is optimal."""
    coords = np.stack([np.arange(8.0), np.zeros(8)], axis=1)
    instance = Instance("line", "tsp", coords)
    tours, _ = reconstruct_segments(
        [instance],
        InstanceBatch.from_instances([instance]),
        torch.tensor([[0, 3, 1, 2, 5, 4, 6, 7]]),
        nearest_first,
        np.random.default_rng(0),
        rule=SegmentRule((2, 7)),
        iterations=60,
    )
    assert routes_cost(instance, [tours[0].numpy()]) == 14.0


def test_routes_are_merged_where_capacity_allows() -> None:
    """Two customers in one place, served by two routes, come onto one."""
    instance = Instance("two", "cvrp", np.array([[0.0, 0], [1, 0], [1, 0]]), demand=np.array([0, 1, 1]), capacity=2)
    tours, log = reconstruct_segments(
        [instance],
        InstanceBatch.from_instances([instance]),
        torch.tensor([[0, 1, 0, 2, 0]]),
        nearest_first,
        np.random.default_rng(0),
        iterations=20,
    )
    assert len(split_giant_tour("cvrp", tours[0])) == 1
    assert [point[1][0] for point in (log.points[0], log.points[-1])] == [4.0, 2.0]


def test_segments_are_accepted_by_the_instances_own_metric() -> None:
    """With a rounded metric and with a matrix the final costs are the judge's own."""
    (plane,), tours = start_from("tsp", 30, 1, 2, "EUC_2D")
    matrix = Instance("matrix", "tsp", metric="EXPLICIT", weights=plane.distance_matrix())
    for instance in (plane, matrix):
        improved, log = reconstruct_segments(
            [instance],
            InstanceBatch.from_instances([instance]),
            tours,
            nearest_first,
            np.random.default_rng(0),
            iterations=30,
        )
        assert routes_cost(instance, [improved[0].numpy()]) == log.points[-1][1][0]
        assert log.points[-1][1][0] < log.points[0][1][0]


def test_a_time_limit_ends_the_iterations() -> None:
    """No time: no iteration, and the tours as they were."""
    instances, tours = start_from("tsp", 20, 2, 0)
    batch = InstanceBatch.from_instances(instances)
    after, log = reconstruct_segments(instances, batch, tours, nearest_first, np.random.default_rng(0), time_limit=0.0)
    assert log.iterations == 0
    assert torch.equal(after, tours)
    with pytest.raises(ValueError, match="needs a limit"):
        reconstruct_segments(instances, batch, tours, nearest_first, np.random.default_rng(0))


def test_a_good_solution_is_improved_too() -> None:
    """The nearest neighbour's own tours, cut elsewhere, get shorter."""
    instances, _ = start_from("tsp", 200, 2, 7)
    starts = make_solver("nearest-neighbour").solve(instances, seed=0)
    tours = torch.from_numpy(np.stack([start.routes[0] for start in starts]))
    batch = InstanceBatch.from_instances(instances)
    _, log = reconstruct_segments(
        instances, batch, tours, nearest_first, np.random.default_rng(0), k=10, rule=SegmentRule((4, 50)), iterations=20
    )
    assert (log.points[-1][1] < log.points[0][1]).all()


def test_wrong_sizes_are_refused() -> None:
    """A segment has at least two nodes, and the smaller size comes first."""
    for sizes in ((1, 5), (6, 5)):
        with pytest.raises(UsageError, match="segments have two sizes"):
            SegmentRule(sizes)
