"""Insertion and nearest-neighbour heuristics against plain lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.instance import Instance
from nco.search import insertion
from nco.search.insertion import farthest_insertion, nearest_insertion, nearest_neighbour, random_insertion
from nco.solution import check_routes, routes_cost, split_giant_tour
from nco.solvers import make_solver


def plain_insertion(coords: np.ndarray, order: list[int], choose) -> list[int]:  # type: ignore[no-untyped-def]
    """Insert with lists; ``choose`` picks the next node from the tour and the open nodes."""
    tour, rest = [order[0]], list(order[1:])
    while rest:
        node = choose(tour, rest)
        rest.remove(node)
        ends = [(tour[i], tour[(i + 1) % len(tour)]) for i in range(len(tour))]
        costs = [distance(coords, a, node) + distance(coords, node, b) - distance(coords, a, b) for a, b in ends]
        tour.insert(int(np.argmin(costs)) + 1, node)
    return tour


def distance(coords: np.ndarray, a: int, b: int) -> float:
    """Return the Euclidean distance of two nodes."""
    return float(np.hypot(*(coords[a] - coords[b])))


def length(coords: np.ndarray, tour: list[int]) -> float:
    """Return the length of a closed tour."""
    return sum(distance(coords, tour[i - 1], tour[i]) for i in range(len(tour)))


@pytest.mark.parametrize("size", [1, 2, 3, 30])
def test_random_insertion_puts_each_node_where_it_adds_least(size: int) -> None:
    """With the same order of nodes, a plain loop finds a tour of the same length."""
    coords = np.random.default_rng(size).random((size, 2))
    found = random_insertion(coords, np.random.default_rng(1))
    order = [int(node) for node in np.random.default_rng(1).permutation(size)]
    wanted = plain_insertion(coords, order, lambda tour, rest: rest[0])
    assert sorted(found) == list(range(size))
    assert length(coords, list(found)) == pytest.approx(length(coords, wanted))


@pytest.mark.parametrize("near", [1, 3, 100])
def test_large_tours_are_tried_only_at_the_nearest_nodes(near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From EXACT_NODES on a node goes next to a near node of the tour; with all nodes near, as in a plain loop."""
    monkeypatch.setattr(insertion, "EXACT_NODES", 5)
    monkeypatch.setattr(insertion, "NEAR_NODES", near)
    coords = np.random.default_rng(2).random((60, 2))
    found = random_insertion(coords, np.random.default_rng(1))
    assert sorted(found) == list(range(60))
    order = [int(node) for node in np.random.default_rng(1).permutation(60)]
    exact = length(coords, plain_insertion(coords, order, lambda tour, rest: rest[0]))
    assert length(coords, list(found)) == pytest.approx(exact, rel={1: 0.3, 3: 0.1, 100: 1e-9}[near])


def test_large_tours_take_coinciding_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node none of whose nearest is on the tour yet is tried everywhere."""
    monkeypatch.setattr(insertion, "EXACT_NODES", 5)
    monkeypatch.setattr(insertion, "NEAR_NODES", 1)
    found = random_insertion(np.ones((40, 2)), np.random.default_rng(1))
    assert sorted(found) == list(range(40))


@pytest.mark.parametrize(("heuristic", "pick"), [(nearest_insertion, min), (farthest_insertion, max)])
def test_nearest_and_farthest_insertion_choose_by_the_distance_to_the_tour(heuristic, pick) -> None:  # type: ignore[no-untyped-def]
    """The next node is the one nearest to, or farthest from, its nearest node of the tour."""
    coords = np.random.default_rng(0).random((30, 2))
    order = [int(node) for node in np.random.default_rng(1).permutation(30)]

    def choose(tour: list[int], rest: list[int]) -> int:
        return pick(rest, key=lambda node: min(distance(coords, node, other) for other in tour))

    found = heuristic(coords, np.random.default_rng(1))
    assert sorted(found) == list(range(30))
    assert length(coords, list(found)) == pytest.approx(length(coords, plain_insertion(coords, order, choose)))


def test_nearest_neighbour_goes_on_to_the_nearest_open_node() -> None:
    """Each step leads to the closest node not visited yet."""
    coords = np.random.default_rng(0).random((40, 2))
    tour = [int(node) for node in nearest_neighbour(coords, start=7)]
    assert tour[0] == 7
    for place in range(1, 40):
        rest = tour[place:]
        assert tour[place] == min(rest, key=lambda node: distance(coords, tour[place - 1], node))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(size=st.integers(2, 30), capacity=st.integers(9, 40), seed=st.integers(0, 1000))
def test_routes_keep_the_capacity_and_open_no_more_than_needed(size: int, capacity: int, seed: int) -> None:
    """Both CVRP heuristics are feasible, zero demands and exact fills included."""
    rng = np.random.default_rng(seed)
    demand = np.concatenate([[0], rng.integers(0, 10, size - 1)])
    instance = Instance("x", "cvrp", rng.random((size, 2)), demand=demand, capacity=capacity)
    for tour in (
        random_insertion(instance.network_coords, rng, demand, capacity),
        nearest_neighbour(instance.network_coords, 0, demand, capacity),
    ):
        routes = split_giant_tour("cvrp", tour)
        check_routes(instance, routes)
        assert tour[0] == 0
        if int(demand.sum()) <= capacity:
            assert len(routes) == 1


@pytest.mark.parametrize("name", ["nearest-neighbour", "random-insertion", "nearest-insertion", "farthest-insertion"])
def test_each_heuristic_is_a_solver(name: str) -> None:
    """Judged, costed in the instance's own metric, and the same for the same seed."""
    coords = np.random.default_rng(0).integers(0, 1000, (25, 2))
    instances = [Instance("a", "tsp", coords, "EUC_2D"), Instance("b", "tsp", coords[:2], "ATT")]
    solver = make_solver(name)
    solutions = solver.solve(instances, seed=3)
    assert [solution.cost for solution in solutions] == [
        routes_cost(instance, solution.routes) for instance, solution in zip(instances, solutions, strict=True)
    ]
    again = solver.solve(instances, seed=3)
    assert [one.cost for one in again] == [one.cost for one in solutions]
