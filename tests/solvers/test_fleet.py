from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_instances import optimum, random_tsp

from nco.instance import Instance
from nco.solution import routes_cost
from nco.solvers.fleet import generous_fleets, load_bound, packed_vehicles, reduced_demands, tiny_routes
from nco.solvers.rounding import whole_distances


def cvrp(demand: list[int], capacity: int) -> Instance:
    """Return a CVRP with the customers' demands."""
    return Instance(
        "x", "cvrp", random_tsp(len(demand) + 1, 1).coords, demand=np.array([0, *demand]), capacity=capacity
    )


def least_vehicles(demand: list[int], capacity: int) -> int:
    """Return the least number of vehicles, by trying all ways to put a customer into a vehicle."""

    def place(rest: list[int], room: list[int]) -> int:
        if not rest:
            return len(room)
        size, *others = rest
        counts = [place(others, [*room, capacity - size])]
        for number, left in enumerate(room):
            if left >= size:
                counts.append(place(others, [*room[:number], left - size, *room[number + 1 :]]))
        return min(counts)

    return max(1, place([size for size in demand if size], []))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 10), min_size=1, max_size=6), st.integers(10, 20))
def test_bounds_enclose_the_least_fleet(demand, capacity):
    """The load bound is never above the least number of vehicles, and the packing never below it."""
    instance = cvrp(demand, capacity)
    least = least_vehicles(demand, capacity)
    assert load_bound(instance) <= least <= packed_vehicles(instance)


def test_bounds_of_the_trap():
    """Demands of 3, 4 and 5 with a capacity of 6: two by load, three by packing."""
    assert load_bound(cvrp([3, 4, 5], 6)) == 2
    assert packed_vehicles(cvrp([3, 4, 5], 6)) == 3


def test_bound_uses_the_common_divisor():
    """Demands of 4 with a capacity of 6 cannot share a vehicle, which the bound knows."""
    assert load_bound(cvrp([4] * 30, 6)) == 30


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(30, 90), st.integers(1, 12))
def test_reduced_demands_have_the_same_feasible_routes(demand, capacity, factor):
    """Any set of customers fits with the reduced numbers where it fits with the instance's own."""
    instance = cvrp([factor * size for size in demand], factor * capacity + factor - 1)
    reduced, room = reduced_demands(instance)
    for subset in range(1 << len(demand)):
        chosen = [node for node in range(1, len(demand) + 1) if subset >> (node - 1) & 1]
        assert (reduced[chosen].sum() <= room) == (instance.demand[chosen].sum() <= instance.capacity)


def test_generous_fleets():
    """HGS's rule comes first, if it is enough and no more than one for each customer; that is the last."""
    assert generous_fleets(cvrp([2] * 11 + [3], 5)) == [10, 12]
    assert generous_fleets(cvrp([3] * 45 + [2] * 5, 5)) == [45, 50]
    assert generous_fleets(cvrp([1, 2], 5)) == [2]


def test_tsp_has_no_demands():
    """Asking for the demands of a TSP is a fault of the caller."""
    with pytest.raises(ValueError, match="'tsp-4-1' is no CVRP"):
        reduced_demands(random_tsp(4, 1))


@pytest.mark.parametrize("capacity", [4, 9])
def test_tiny_routes_are_optimal(capacity):
    """Two customers share a route where they fit together."""
    instance = cvrp([4, 4], capacity)
    assert routes_cost(instance, tiny_routes(instance)) == optimum(instance)
    assert len(tiny_routes(instance)) == (1 if capacity == 9 else 2)


def test_tiny_routes_break_no_matrix():
    """Where a matrix makes the way between two customers long, they get routes of their own."""
    weights = np.array([[0.0, 1, 1], [1, 0, 9], [1, 9, 0]])
    instance = Instance("x", "cvrp", metric="EXPLICIT", weights=weights, demand=np.array([0, 1, 1]), capacity=5)
    assert [route.tolist() for route in tiny_routes(instance)] == [[1], [2]]


def test_larger_instances_are_not_tiny():
    """From four nodes on there is work for a solver."""
    assert tiny_routes(random_tsp(4, 1)) is None


def test_whole_distances_stay():
    """Whole distances up to the limit are not scaled."""
    instance = random_tsp(6, 1, "EUC_2D", 100.0)
    whole, scale = whole_distances(instance, 200)
    assert (whole.dtype, scale) == (np.int64, 1.0)
    np.testing.assert_array_equal(whole, instance.distance_matrix())


@pytest.mark.parametrize("metric", ["EXACT", "EUC_2D"])
def test_other_distances_are_scaled(metric):
    """Fractions, and whole distances above the limit, are scaled so that the longest is the limit, then rounded."""
    instance = random_tsp(6, 1, metric, 1_000.0)
    whole, scale = whole_distances(instance, 50)
    assert whole.max() == 50
    assert np.abs(whole - scale * instance.distance_matrix()).max() <= 0.5
    assert whole_distances(instance, 50, scale=2.0)[1] == 2.0
