"""What all baselines have in common: exact optima of small instances, odd instances, seeds, the user's units."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from small_instances import optimum, random_cvrp, random_tsp

from nco.instance import Instance
from nco.solution import Solution, routes_cost
from nco.solvers import Solver, make_solver
from nco.solvers.base import availability

# One entry for each way to each solver; budgets are small, the instances too.
SETTINGS = {
    "lkh": ("lkh", {"max_trials": 10}),
    "lkh-elkai": ("lkh", {"route": "elkai"}),
    "hgs": ("hgs", {"iterations": 100}),
    "pyvrp": ("pyvrp", {"iterations": 100}),
    "fast-tsp": ("fast-tsp", {"seconds": 0.05}),
    "ortools": ("ortools", {"seconds": 0.1}),
}
TSP = [label for label in SETTINGS if label != "hgs"]
CVRP = ["lkh", "hgs", "pyvrp", "ortools"]


@cache
def solver(label: str) -> Solver:
    """Return one solver for all tests, so that its process need not start anew; skip where it is not installed."""
    name, options = SETTINGS[label]
    available, reason = availability(name)
    if not available:
        pytest.skip(reason)
    if options.get("route") == "elkai":
        pytest.importorskip("elkai")
    return make_solver(name, options)


def solve(label: str, instances: list[Instance], seed: int = 1) -> list[Solution]:
    """Solve with the solver of a label."""
    return solver(label).solve(instances, seed=seed)


def check(instance: Instance, solution: Solution, name: str) -> None:
    """Check that a solution states its own cost, its solver and its time."""
    assert solution.cost == routes_cost(instance, solution.routes)
    assert solution.solver == name
    assert solution.seconds >= 0


@pytest.mark.parametrize("label", TSP)
@pytest.mark.parametrize("metric", ["EXACT", "EUC_2D", "CEIL_2D", "ATT", "GEO"])
def test_tsp_optimum(label, metric):
    """TSPs of 9 nodes are solved exactly, in each metric of coordinates."""
    instance = random_tsp(9, 3, metric, size=1.0 if metric == "EXACT" else 89.0)
    [solution] = solve(label, [instance])
    check(instance, solution, SETTINGS[label][0])
    assert solution.cost == pytest.approx(optimum(instance), rel=1e-12)


@pytest.mark.parametrize("label", CVRP)
@pytest.mark.parametrize("metric", ["EXACT", "EUC_2D"])
def test_cvrp_optimum(label, metric):
    """CVRPs of 9 customers are solved exactly."""
    instance = random_cvrp(9, 4, metric=metric, size=1.0 if metric == "EXACT" else 1_000.0)
    [solution] = solve(label, [instance])
    check(instance, solution, SETTINGS[label][0])
    assert solution.cost == pytest.approx(optimum(instance), rel=1e-12)


@pytest.mark.parametrize("label", TSP)
def test_matrix_of_fractions(label):
    """A matrix without coordinates, of fractions that break the triangle inequality, is solved exactly."""
    half = np.triu(np.random.default_rng(5).random((8, 8)), 1)
    instance = Instance("matrix", "tsp", metric="EXPLICIT", weights=half + half.T)
    [solution] = solve(label, [instance])
    assert solution.cost == pytest.approx(optimum(instance), rel=1e-12)


@pytest.mark.parametrize("label", CVRP)
def test_cvrp_of_a_matrix(label):
    """A CVRP on a matrix is solved exactly, and the matrix is what its cost is read from."""
    points = random_cvrp(8, 6, metric="EUC_2D", size=100.0)
    weights = points.distance_matrix()
    instance = Instance("m", "cvrp", metric="EXPLICIT", weights=weights, demand=points.demand, capacity=points.capacity)
    [solution] = solve(label, [instance])
    assert solution.cost == optimum(instance) == optimum(points)


@pytest.mark.parametrize("label", CVRP)
def test_load_bound_is_too_few_vehicles(label):
    """Demands of 3, 4 and 5 fill two vehicles of capacity 6, but fit into three only."""
    coords = np.array([[0.0, 0], [1, 0], [2, 0], [3, 0]])
    instance = Instance("trap", "cvrp", coords, "EUC_2D", demand=np.array([0, 3, 4, 5]), capacity=6)
    [solution] = solve(label, [instance])
    assert sorted(map(tuple, solution.routes)) == [(1,), (2,), (3,)]
    assert solution.cost == 12


@pytest.mark.parametrize("label", CVRP)
def test_each_customer_needs_a_vehicle(label):
    """Where no two customers fit together, there are enough vehicles all the same."""
    coords = np.random.default_rng(7).random((13, 2))
    instance = Instance("alone", "cvrp", coords, demand=np.r_[0, np.full(6, 4), np.full(6, 5)], capacity=7)
    [solution] = solve(label, [instance])
    assert len(solution.routes) == 12


@pytest.mark.parametrize("label", TSP)
def test_smallest_tsps(label):
    """TSPs of 2, 3 and 4 nodes have solutions; of 2 and 3 there is but one."""
    instances = [random_tsp(size, 1) for size in (2, 3, 4)]
    solutions = solve(label, instances)
    assert [solution.cost for solution in solutions] == pytest.approx([optimum(instance) for instance in instances])


@pytest.mark.parametrize("label", CVRP)
def test_smallest_cvrps(label):
    """CVRPs of 1, 2 and 3 customers are solved exactly."""
    instances = [random_cvrp(customers, 1) for customers in (1, 2, 3)]
    solutions = solve(label, instances)
    assert [solution.cost for solution in solutions] == pytest.approx([optimum(instance) for instance in instances])


@pytest.mark.parametrize("label", TSP)
def test_coinciding_nodes_of_a_tsp(label):
    """Nodes that are all in one place have a tour of length 0."""
    [solution] = solve(label, [Instance("point", "tsp", np.full((7, 2), 3.25))])
    assert solution.cost == 0


@pytest.mark.parametrize("label", CVRP)
def test_coinciding_nodes_of_a_cvrp(label):
    """Customers at the depot still must not overload a vehicle."""
    instance = Instance("point", "cvrp", np.full((8, 2), 3.25), demand=np.r_[0, np.full(7, 4)], capacity=6)
    [solution] = solve(label, [instance])
    assert (solution.cost, len(solution.routes)) == (0, 7)


@pytest.mark.parametrize("label", CVRP)
def test_customers_without_demand(label):
    """Customers of demand 0, some or all, are visited like the others."""
    points = random_tsp(8, 2).coords
    some = Instance("some", "cvrp", points, demand=np.array([0, 0, 5, 0, 5, 5, 0, 0]), capacity=10)
    none = Instance("none", "cvrp", points, demand=np.zeros(8, dtype=int), capacity=10)
    solutions = solve(label, [some, none])
    assert [solution.cost for solution in solutions] == pytest.approx([optimum(some), optimum(none)])


@pytest.mark.parametrize("label", sorted({*TSP, *CVRP}))
@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_units_do_not_matter(label, size):
    """Coordinates of any magnitude, rounded or not, are solved exactly, though solvers have limits on distances."""
    if label in CVRP:
        instance = random_cvrp(7, 8, metric="EXACT" if size < 1 else "EUC_2D", size=size)
    else:
        instance = random_tsp(7, 8, metric="EXACT" if size < 1 else "EUC_2D", size=size)
    [solution] = solve(label, [instance])
    assert solution.cost == pytest.approx(optimum(instance), rel=1e-12)


@pytest.mark.parametrize("label", CVRP)
def test_large_demands(label):
    """Demands beyond 32 bits are no harder than small ones in the same proportions."""
    small = Instance("small", "cvrp", random_tsp(6, 9).coords, demand=np.array([0, 1, 3, 2, 3, 4]), capacity=5)
    large = replace(small, name="large", demand=small.demand * 10**12, capacity=5 * 10**12 + 7)
    for solution in solve(label, [small, large]):
        assert solution.cost == pytest.approx(optimum(small))


@pytest.mark.parametrize("label", ["pyvrp", "ortools"])
def test_overload_by_one_in_billions(label):
    """Loads are whole numbers: a route may carry the capacity of billions to the unit, and not one more."""
    big = 3_000_000_001
    demand = np.array([0, big, 2 * big, big + 1, 2 * big - 1])
    instance = Instance("unit", "cvrp", random_tsp(5, 9).coords, demand=demand, capacity=3 * big)
    [solution] = solve(label, [instance])
    assert solution.cost == pytest.approx(optimum(instance))


@pytest.mark.parametrize("label", ["lkh", "lkh-elkai", "hgs", "pyvrp"])
@pytest.mark.parametrize("seed", [0, -7 * 10**12])
def test_same_seed_gives_same_routes(label, seed):
    """The same seed gives the same routes, whatever was solved before; a negative or huge seed is a seed."""
    instances = (
        [random_tsp(60, 1), random_tsp(40, 2)] if label == "lkh-elkai" else [random_cvrp(16, 3), random_cvrp(12, 4)]
    )
    if label == "lkh":
        instances.insert(1, random_tsp(30, 5))
    forward = solve(label, instances, seed)
    backward = solve(label, instances[::-1], seed)[::-1]
    for one, other in zip(forward, backward, strict=True):
        assert one.seed == other.seed == seed
        assert list(map(list, one.routes)) == list(map(list, other.routes))


@pytest.mark.parametrize("label", ["fast-tsp", "ortools"])
def test_solvers_without_seed_say_so(label):
    """A solver that takes no seed does not claim one, and states its time limit."""
    [solution] = solve(label, [random_tsp(25, 1)], seed=5)
    assert solution.seed is None
    assert solution.info["time_limit"] == SETTINGS[label][1]["seconds"]


@pytest.mark.parametrize("label", sorted({*TSP, *CVRP}))
def test_progress_is_reported(label):
    """Progress counts instances."""
    instance = random_cvrp(3, 1) if label == "hgs" else random_tsp(3, 1)
    reports = []
    solver(label).solve([instance] * 2, seed=1, progress=lambda done, total: reports.append((done, total)))
    assert reports == [(1, 2), (2, 2)]
