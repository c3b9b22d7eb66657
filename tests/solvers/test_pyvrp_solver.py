from __future__ import annotations

import numpy as np
import pytest
from small_instances import random_cvrp, random_tsp

from nco.instance import Instance
from nco.solution import routes_cost
from nco.solvers import make_solver
from nco.solvers.base import SolverError

pyvrp = pytest.importorskip("pyvrp")

from nco.solvers.pyvrp import LARGEST_DISTANCE, problem_data, read_routes, search_parameters, write_routes  # noqa: E402


def test_trace_ends_at_the_cost():
    """The trace holds ever better costs in the instance's own units, and ends with the solution's."""
    [solution] = make_solver("pyvrp", {"iterations": 300}).solve([random_cvrp(40, 1)], seed=1)
    seconds, costs = zip(*solution.trace, strict=True)
    assert len(costs) > 1
    assert list(seconds) == sorted(seconds)
    assert list(costs) == sorted(costs, reverse=True)
    assert costs[-1] == solution.cost


def test_iterations_are_stated():
    """The search ends after the iterations."""
    [solution] = make_solver("pyvrp", {"iterations": 17}).solve([random_cvrp(10, 1)], seed=1)
    assert solution.info["iterations"] == 17


def test_time_limit_ends_the_search():
    """A time limit ends the search before the iterations are spent."""
    [solution] = make_solver("pyvrp", {"iterations": 10**9}).solve([random_tsp(30, 1)], seed=1, time_limit=0.3)
    assert 0 < solution.info["iterations"] < 10**9


def test_infeasible_search_is_a_failure(monkeypatch):
    """Where the search ends without a feasible solution, the instance has failed by name."""
    monkeypatch.setattr("nco.solvers.pyvrp.generous_fleets", lambda instance: [2])
    instance = Instance("trap", "cvrp", np.eye(4, 2), demand=np.array([0, 3, 4, 5]), capacity=6)
    with pytest.raises(SolverError, match="instance 'trap': PyVRP has found no feasible solution in 20 iterations"):
        make_solver("pyvrp", {"iterations": 20}).solve([instance], seed=1)


def test_data_of_a_cvrp():
    """Clients are the customers in order, with whole scaled distances, demands and a capacity."""
    instance = random_cvrp(6, 2)
    data = problem_data(instance)
    distances = data.distance_matrix(0)
    assert data.num_clients == 6
    assert [data.client(number).delivery for number in range(6)] == [[size] for size in instance.demand[1:].tolist()]
    assert data.vehicle_type(0).capacity == [instance.capacity]
    assert distances.max() == LARGEST_DISTANCE
    np.testing.assert_allclose(
        distances / LARGEST_DISTANCE, instance.distance_matrix() / instance.distance_matrix().max(), atol=1e-6
    )


def test_scale_can_be_chosen():
    """Distances are scaled by what the caller says."""
    instance = random_tsp(5, 1)
    np.testing.assert_allclose(
        problem_data(instance, scale=10.0).distance_matrix(0), 10 * instance.distance_matrix(), atol=0.5
    )


@pytest.mark.parametrize("instance", [random_tsp(6, 1), random_cvrp(6, 1, capacity=25)], ids=["tsp", "cvrp"])
def test_routes_come_back(instance):
    """Routes survive the way to PyVRP and back, and PyVRP's length of them is the cost."""
    routes = [np.array([2, 0, 5, 1, 4, 3])] if instance.problem == "tsp" else [np.array([3, 1]), np.array([6, 2, 4, 5])]
    data = problem_data(instance, scale=1e9)
    solution = write_routes(instance, data, routes)
    assert solution.distance() / 1e9 == pytest.approx(routes_cost(instance, routes))
    back = read_routes(instance, solution)
    if instance.problem == "tsp":
        assert back[0].tolist() == [0, 5, 1, 4, 3, 2]
    else:
        assert sorted(map(tuple, back)) == sorted(map(tuple, routes))


def test_penalties_follow_the_distances():
    """Penalties are PyVRP's own for distances up to 1,000, and grow in proportion beyond."""
    usual = pyvrp.PenaltyParams()
    near = search_parameters(problem_data(random_tsp(6, 1, "EUC_2D", 500.0))).penalty
    assert near == usual
    far = search_parameters(problem_data(random_tsp(6, 1))).penalty
    assert far.max_penalty == usual.max_penalty * LARGEST_DISTANCE / 1_000
