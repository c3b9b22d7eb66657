"""Hybrid genetic search for the CVRP (HGS-CVRP, Vidal 2022), through hygese or hybgensea."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from nco.errors import SolverUnavailable
from nco.instance import Instance
from nco.solution import Routes, Solution
from nco.solvers.base import (
    Progress,
    SolverError,
    check_positive,
    check_whole,
    register,
    require_matrix,
    require_package,
    require_problem,
    solve_in_turn,
)
from nco.solvers.fleet import generous_fleets, reduced_demands, tiny_routes
from nco.solvers.worker import Worker, wall_limit

# Two packages of the same program; the second has wheels for newer Pythons.
PACKAGES = ("hygese", "hybgensea")
# HGS refuses demands and distances whose largest exceeds 100,000, and distances whose largest is below 0.1.
_LARGEST_DEMAND = 100_000


@register("hgs")
class HGS:
    """HGS-CVRP with its published parameters.

    Parameters
    ----------
    iterations : int
        HGS ends after so many iterations without improvement, its ``nbIter``; 20,000 in the paper. The default takes
        about 10 CPU seconds for 100 customers. With a time limit, HGS starts anew whenever they are spent, and uses
        all of the time.
    kill_after : float, optional
        Wall-clock seconds after which the process of an instance is killed, and the instance has failed. By default a
        minute more than 10 times the time limit; without a time limit, never.

    Notes
    -----
    HGS counts its time limit in CPU seconds. Without a time limit, the same seed gives the same routes.
    """

    name = "hgs"
    problems: tuple[str, ...] = ("cvrp",)

    def __init__(self, iterations: int = 5_000, kill_after: float | None = None):
        check_whole(self.name, 1, iterations=iterations)
        check_positive(self.name, kill_after=kill_after)
        self.iterations = iterations
        self.kill_after = kill_after
        self._worker: Worker | None = None

    @classmethod
    def available(cls) -> str:
        """Return the package and its version.

        Raises
        ------
        SolverUnavailable
        """
        return _find_package()[1]

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> list[Solution]:
        """Solve instances one after the other; see :class:`nco.solvers.base.Solver`."""
        require_problem(self, instances)
        require_matrix(self, instances)
        package, version = _find_package()
        if self._worker is None or self._worker.engine != package:
            self._worker = Worker(package)
        worker = self._worker
        parameters = {"nbIter": self.iterations, "seed": seed % 2**31, "timeLimit": time_limit or 0.0}
        timeout = wall_limit(self.kill_after, time_limit)

        def solve_one(number: int, instance: Instance) -> Solution:
            began = time.perf_counter()
            info: dict[str, object] = {"version": version, "iterations": self.iterations}
            routes = tiny_routes(instance)
            if routes is None:
                job = {"package": package, "parameters": parameters, "data": search_data(instance)}
                routes, info["vehicles"] = _search(worker, job, instance, timeout)
            seconds = time.perf_counter() - began
            return Solution.judged(instance, routes, seconds=seconds, solver=self.name, seed=seed, info=info)

        return solve_in_turn(instances, solve_one, progress)


def search_data(instance: Instance) -> dict[str, Any]:
    """Return what HGS gets of an instance, but for its fleet.

    HGS wants numbers of certain sizes, and its penalties are made for distances of about 1,000. So distances are
    scaled by a power of ten that brings the largest between 1,000 and 10,000, and large demands by a power of two,
    which keeps their sums exact.
    """
    demand, capacity = reduced_demands(instance)
    if not demand.any():
        demand, capacity = (np.arange(len(demand)) > 0).astype(np.int64), len(demand)
    shrink = 2.0 ** -max(0, math.ceil(math.log2(int(demand.max()) / _LARGEST_DEMAND)))
    distances = instance.distance_matrix()
    longest = float(distances.max())
    if longest > 0.0:
        distances = distances * 10.0 ** (3 - math.floor(math.log10(longest)))
    else:
        distances = 1_000.0 * (1.0 - np.eye(len(demand)))  # with all nodes in one place, any packing is as good
    x, y = (instance.network_coords - instance.network_coords.min(axis=0)).T
    return {
        "x_coordinates": x,
        "y_coordinates": y,
        "distance_matrix": distances,
        "demands": demand * shrink,
        "vehicle_capacity": capacity * shrink,
    }


def _search(worker: Worker, job: dict[str, Any], instance: Instance, timeout: float | None) -> tuple[Routes, int]:
    """Return routes and the limit on vehicles that they were found with."""
    for vehicles in generous_fleets(instance):
        job["data"]["num_vehicles"] = vehicles
        routes = worker.run(job, instance.name, timeout)
        if routes:
            return [np.array(route) for route in routes], vehicles
    raise SolverError(f"instance {instance.name!r}: HGS has found no feasible solution")


def _find_package() -> tuple[str, str]:
    """Return the package to use and its version.

    Raises
    ------
    SolverUnavailable
        If there is none.
    """
    missing: SolverUnavailable | None = None
    for package in PACKAGES:
        try:
            return package, require_package(package, package)
        except SolverUnavailable as error:
            missing = missing or error
    raise SolverUnavailable(str(missing))
