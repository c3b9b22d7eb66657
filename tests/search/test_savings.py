"""The savings heuristic against lists of routes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.instance import Instance
from nco.search.savings import savings
from nco.solution import check_routes, routes_cost, split_giant_tour
from nco.solvers import make_solver


def random_instance(customers: int, capacity: int, seed: int) -> Instance:
    """Return a CVRP with demands from 0 to 9."""
    rng = np.random.default_rng(seed)
    demand = rng.integers(0, 10, customers + 1)
    demand[0] = 0
    return Instance("random", "cvrp", rng.random((customers + 1, 2)), demand=demand, capacity=capacity)


def plain_savings(instance: Instance) -> float:
    """Join lists of customers, all pairs tried, and return the cost."""
    coords, demand = instance.coords, instance.demand
    assert coords is not None and demand is not None and instance.capacity is not None
    distance = np.linalg.norm(coords[:, None] - coords[None], axis=-1)
    routes = [[node] for node in range(1, len(coords))]
    pairs = combinations(range(1, len(coords)), 2)
    for i, j in sorted(pairs, key=lambda p: distance[p] - distance[p[0], 0] - distance[0, p[1]]):
        if distance[i, 0] + distance[0, j] <= distance[i, j]:
            break
        of_i, of_j = (next(route for route in routes if node in route) for node in (i, j))
        are_ends = i in (of_i[0], of_i[-1]) and j in (of_j[0], of_j[-1])
        if of_i is of_j or not are_ends or demand[of_i].sum() + demand[of_j].sum() > instance.capacity:
            continue
        routes.remove(of_i)
        routes.remove(of_j)
        routes.append((of_i if of_i[-1] == i else of_i[::-1]) + (of_j if of_j[0] == j else of_j[::-1]))
    return routes_cost(instance, [np.array(route) for route in routes])


@pytest.mark.parametrize("seed", range(8))
def test_routes_are_joined_in_the_order_of_their_savings(seed: int) -> None:
    """With all customers as neighbours, plain lists give a solution of the same cost."""
    instance = random_instance(25, 30, seed)
    assert instance.coords is not None and instance.demand is not None
    tour = savings(instance.coords, instance.demand, 30, neighbours=24)
    assert routes_cost(instance, split_giant_tour("cvrp", tour)) == pytest.approx(plain_savings(instance))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    customers=st.integers(1, 40), capacity=st.integers(9, 60), neighbours=st.integers(1, 12), seed=st.integers(0, 999)
)
def test_solutions_are_feasible(customers: int, capacity: int, neighbours: int, seed: int) -> None:
    """Whatever the size, the capacity and the neighbours, every customer is on one route and none is overloaded."""
    instance = random_instance(customers, capacity, seed)
    assert instance.coords is not None and instance.demand is not None
    tour = savings(instance.coords, instance.demand, capacity, neighbours)
    check_routes(instance, split_giant_tour("cvrp", tour))


def test_the_solver_beats_the_nearest_neighbour() -> None:
    """On 200 customers with short routes the savings are well ahead of the nearest neighbour."""
    instance = random_instance(200, 50, 1)
    [ours] = make_solver("savings").solve([instance], seed=1)
    [theirs] = make_solver("nearest-neighbour").solve([instance], seed=1)
    assert ours.cost < 0.95 * theirs.cost
