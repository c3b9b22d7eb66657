"""Google OR-Tools' routing library: guided local search (Voudouris and Tsang 1999) for TSP and CVRP."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from nco.instance import Instance
from nco.solution import Routes, Solution
from nco.solvers.base import (
    Progress,
    SolverError,
    check_positive,
    register,
    require_matrix,
    require_package,
    require_problem,
    solve_in_turn,
)
from nco.solvers.fleet import generous_fleets, reduced_demands
from nco.solvers.rounding import whole_distances

_LARGEST_DISTANCE = 1_000_000


@register("ortools")
class ORTools:
    """Cheapest arcs (TSP) or savings (CVRP), then guided local search until the time is over.

    Parameters
    ----------
    seconds : float
        Wall-clock seconds for an instance where ``solve`` is given no time limit; all of them are used.

    Notes
    -----
    The search takes no seed; what it reaches depends on the speed of the machine. The ``seed`` of solutions is None.
    """

    name = "ortools"
    problems: tuple[str, ...] = ("tsp", "cvrp")

    def __init__(self, seconds: float = 10.0):
        check_positive(self.name, seconds=seconds)
        self.seconds = seconds

    @classmethod
    def available(cls) -> str:
        """Return the package and its version.

        Raises
        ------
        SolverUnavailable
        """
        return require_package("ortools", "ortools", extra="ortools")

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> list[Solution]:
        """Solve instances one after the other; see :class:`nco.solvers.base.Solver`."""
        version = self.available()
        require_problem(self, instances)
        require_matrix(self, instances)
        limit = self.seconds if time_limit is None else time_limit

        def solve_one(number: int, instance: Instance) -> Solution:
            began = time.perf_counter()
            routes = _search(instance, limit)
            seconds = time.perf_counter() - began
            info = {"version": version, "time_limit": limit}
            return Solution.judged(instance, routes, seconds=seconds, solver=self.name, info=info)

        return solve_in_turn(instances, solve_one, progress)


def _search(instance: Instance, seconds: float) -> Routes:
    from ortools.constraint_solver import pywrapcp
    from ortools.constraint_solver.routing_enums_pb2 import FirstSolutionStrategy, LocalSearchMetaheuristic

    is_tsp = instance.problem == "tsp"
    vehicles = 1 if is_tsp else generous_fleets(instance)[0]
    distances, _ = whole_distances(instance, _LARGEST_DISTANCE)
    manager = pywrapcp.RoutingIndexManager(instance.num_nodes, vehicles, 0)
    model = pywrapcp.RoutingModel(manager)
    model.SetArcCostEvaluatorOfAllVehicles(model.RegisterTransitMatrix(distances.tolist()))
    if not is_tsp:
        demand, capacity = reduced_demands(instance)
        load = model.RegisterUnaryTransitVector(demand.tolist())
        model.AddDimension(load, 0, capacity, True, "load")
    parameters = pywrapcp.DefaultRoutingSearchParameters()
    parameters.first_solution_strategy = (
        FirstSolutionStrategy.PATH_CHEAPEST_ARC if is_tsp else FirstSolutionStrategy.SAVINGS
    )
    parameters.local_search_metaheuristic = LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    parameters.time_limit.FromMilliseconds(max(1, round(1_000 * seconds)))
    assignment = model.SolveWithParameters(parameters)
    if assignment is None:
        raise SolverError(f"instance {instance.name!r}: OR-Tools has found no feasible solution in {seconds:g} s")
    routes = [_visits(model, manager, assignment, vehicle) for vehicle in range(vehicles)]
    return [np.concatenate([[0], *routes])] if is_tsp else routes


def _visits(model, manager, assignment, vehicle: int) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Return the nodes that a vehicle visits, without the depot."""
    visits = []
    index = assignment.Value(model.NextVar(model.Start(vehicle)))
    while not model.IsEnd(index):
        visits.append(manager.IndexToNode(index))
        index = assignment.Value(model.NextVar(index))
    return np.array(visits, dtype=np.int64)
