"""PyVRP (Wouda, Lan and Kool 2024; since 0.14 an iterated local search) for CVRP and TSP, and its data structures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nco.instance import Instance
from nco.solution import Routes, Solution, routes_cost, split_giant_tour
from nco.solvers.base import (
    Progress,
    SolverError,
    check_whole,
    register,
    require_matrix,
    require_package,
    require_problem,
    solve_in_turn,
)
from nco.solvers.fleet import generous_fleets, reduced_demands
from nco.solvers.rounding import whole_distances

if TYPE_CHECKING:
    import pyvrp
    from pyvrp.IteratedLocalSearch import IteratedLocalSearchCallbacks

# The largest distance, where distances have to be scaled.
LARGEST_DISTANCE = 1_000_000
# The largest distance that PyVRP's default penalties suit: at most 100,000 for a unit of overload.
_USUAL_DISTANCE = 1_000


@register("pyvrp")
class PyVRP:
    """PyVRP's iterated local search.

    Parameters
    ----------
    iterations : int
        Iterations of the search, which ends earlier at a time limit. The default takes about 12 CPU seconds for 100
        customers.

    Notes
    -----
    Without a time limit, the same seed gives the same routes.
    """

    name = "pyvrp"
    problems: tuple[str, ...] = ("tsp", "cvrp")

    def __init__(self, iterations: int = 10_000):
        check_whole(self.name, 1, iterations=iterations)
        self.iterations = iterations

    @classmethod
    def available(cls) -> str:
        """Return the package and its version.

        Raises
        ------
        SolverUnavailable
        """
        return require_package("pyvrp", "pyvrp")

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

        def solve_one(number: int, instance: Instance) -> Solution:
            return self._solve(instance, seed, time_limit, version)

        return solve_in_turn(instances, solve_one, progress)

    def _solve(self, instance: Instance, seed: int, time_limit: float | None, version: str) -> Solution:
        import pyvrp
        from pyvrp.IteratedLocalSearch import IteratedLocalSearchCallbacks
        from pyvrp.stop import MaxIterations, MultipleCriteria

        began = time.perf_counter()
        trace: list[tuple[float, float]] = []

        class Recorder(IteratedLocalSearchCallbacks):
            def on_best(self, best: pyvrp.Solution) -> None:
                if best.is_feasible():
                    trace.append((time.perf_counter() - began, routes_cost(instance, read_routes(instance, best))))

        def is_late(best_cost: int) -> bool:
            return time_limit is not None and time.perf_counter() - began >= time_limit

        data = problem_data(instance)
        result = pyvrp.solve(
            data,
            MultipleCriteria([MaxIterations(self.iterations), is_late]),
            seed=seed % 2**32,
            collect_stats=False,
            params=search_parameters(data, Recorder()),
        )
        if not result.is_feasible():
            spent = f"{result.num_iterations} iterations"
            raise SolverError(f"instance {instance.name!r}: PyVRP has found no feasible solution in {spent}")
        seconds = time.perf_counter() - began
        info = {"version": version, "iterations": result.num_iterations}
        return Solution.judged(
            instance,
            read_routes(instance, result.best),
            seconds=seconds,
            solver=self.name,
            seed=seed,
            trace=trace,
            info=info,
        )


def problem_data(instance: Instance, scale: float | None = None) -> pyvrp.ProblemData:
    """Return an instance as PyVRP holds it in memory.

    Node 0 is the depot, of a TSP too, whose one vehicle has no capacity; client i is node i + 1. The vehicles of a
    CVRP are more than enough.

    Parameters
    ----------
    instance : Instance
        Of at most :data:`nco.geometry.DENSE_LIMIT` nodes.
    scale : float, optional
        Factor from the instance's distances to PyVRP's whole ones. By default 1 for whole distances up to
        :data:`LARGEST_DISTANCE`, and what makes this the largest for others.
    """
    import pyvrp

    distances, _ = whole_distances(instance, LARGEST_DISTANCE, scale)
    locations = [pyvrp.Location(x, y) for x, y in instance.network_coords.tolist()]
    nodes = range(1, instance.num_nodes)
    if instance.problem == "tsp":
        clients = [pyvrp.Client(node) for node in nodes]
        vehicles = pyvrp.VehicleType(1)
    else:
        demand, capacity = reduced_demands(instance)
        clients = [pyvrp.Client(node, delivery=[int(demand[node])]) for node in nodes]
        vehicles = pyvrp.VehicleType(generous_fleets(instance)[0], capacity=[capacity])
    no_time = np.zeros_like(distances)
    return pyvrp.ProblemData(locations, clients, [pyvrp.Depot(0)], [vehicles], [distances], [no_time])  # type: ignore[list-item]


def write_routes(instance: Instance, data: pyvrp.ProblemData, routes: Routes) -> pyvrp.Solution:
    """Return routes as PyVRP's solution; a TSP's tour is cut at node 0."""
    import pyvrp

    if instance.problem == "tsp":
        [tour] = routes
        routes = split_giant_tour("cvrp", np.roll(tour, -int(np.argmax(tour == 0))))
    return pyvrp.Solution(data, [(route - 1).tolist() for route in routes])


def read_routes(instance: Instance, solution: pyvrp.Solution) -> Routes:
    """Return the routes of PyVRP's solution."""
    routes = [
        np.array([stop.idx + 1 for stop in route.schedule() if stop.is_client()], dtype=np.int64)
        for route in solution.routes()
    ]
    return [np.concatenate([[0], *routes])] if instance.problem == "tsp" else routes


def search_parameters(
    data: pyvrp.ProblemData, callbacks: IteratedLocalSearchCallbacks | None = None
) -> pyvrp.SolveParams:
    """Return PyVRP's default parameters, with penalties in proportion to the distances.

    The default penalties are made for distances of about 1,000. With distances a thousand times as long, overload pays
    at any of them, and PyVRP finds no feasible solution even for three customers.
    """
    import pyvrp
    from pyvrp.IteratedLocalSearch import IteratedLocalSearchCallbacks

    factor = max(1.0, int(data.distance_matrix(0).max()) / _USUAL_DISTANCE)
    usual = pyvrp.PenaltyParams()
    return pyvrp.SolveParams(
        ils=pyvrp.IteratedLocalSearchParams(callbacks=callbacks or IteratedLocalSearchCallbacks()),
        penalty=pyvrp.PenaltyParams(min_penalty=usual.min_penalty * factor, max_penalty=usual.max_penalty * factor),
    )
