"""LKH-3 (Helsgaun 2017) for TSP and CVRP: an executable, LKHpy, or elkai.

LKH is distributed for research use only, whichever way it is installed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from numpy.typing import ArrayLike

from nco.errors import InfeasibleSolution, SolverUnavailable, UsageError
from nco.instance import Instance
from nco.solution import Routes, Solution, check_routes
from nco.solvers.base import (
    Progress,
    SolverError,
    check_positive,
    check_whole,
    register,
    require_package,
    require_problem,
    solve_in_turn,
)
from nco.solvers.fleet import tiny_routes
from nco.solvers.lkh_files import attempts, search_parameters, visited_routes, whole_instance, write_job
from nco.solvers.worker import Worker, wall_limit

ROUTES = ("executable", "lkhpy", "elkai")
# From so many nodes on LKHpy's LKH has crashed on TSPs; elkai's has not.
_LKHPY_LIMIT = 10_000
# Modules of the packages that contain LKH, and the LKH inside the versions tried: it cannot be asked.
_MODULES = {"lkhpy": "LKHpy", "elkai": "elkai"}
_INSIDE = {"LKHpy 0.0.9": "LKH 3.0.12", "elkai 2.0.1": "LKH 3.0.8"}


class _Route(NamedTuple):
    """A way to LKH that is there."""

    name: str
    version: str
    executable: str | None = None


@register("lkh")
class LKH:
    """Lin-Kernighan-Helsgaun, version 3.

    Parameters
    ----------
    route : {"executable", "lkhpy", "elkai"}, optional
        The way to LKH. By default the first that is there: an executable, which ``LKH_EXE`` names or the PATH has as
        ``LKH`` or ``LKH-3``; the package LKHpy; for TSPs, the package elkai.
    runs : int
        LKH's RUNS.
    max_trials : int, optional
        LKH's MAX_TRIALS of each run. By default N for a TSP and 1,000 for a CVRP.
    scale : float, optional
        Factor on the coordinates of unrounded instances, whose distances LKH rounds. By default their largest span
        becomes 1,000,000.
    spare_vehicles : int
        Vehicles beyond the smallest fleet that is known to suffice. Without any, LKH takes about half the time, but it
        uses all vehicles there are and no more: that cost 0.3 % on average of 8 CVRPs of 100 customers, 1.6 % at most,
        and 10 % on one of 8 customers.
    kill_after : float, optional
        Wall-clock seconds after which the process of an instance is killed, and the instance has failed. By default a
        minute more than 10 times the time limit; without a time limit, never.

    Notes
    -----
    LKH holds its time limit against the CPU seconds of the search. What comes before the search is not counted: a
    second for 1,000 nodes, half a minute for 10,000.
    """

    name = "lkh"
    problems: tuple[str, ...] = ("tsp", "cvrp")

    def __init__(
        self,
        route: str | None = None,
        runs: int = 1,
        max_trials: int | None = None,
        scale: float | None = None,
        spare_vehicles: int = 1,
        kill_after: float | None = None,
    ):
        if route is not None and route not in ROUTES:
            raise UsageError(f"no route {route!r} to LKH; there are {', '.join(ROUTES)}")
        check_whole(self.name, 1, runs=runs, max_trials=max_trials)
        check_whole(self.name, 0, spare_vehicles=spare_vehicles)
        check_positive(self.name, scale=scale, kill_after=kill_after)
        self.route = route
        self.runs = runs
        self.max_trials = max_trials
        self.scale = scale
        self.spare_vehicles = spare_vehicles
        self.kill_after = kill_after
        self._workers: dict[str, Worker] = {}

    @classmethod
    def available(cls) -> str:
        """Return the first way to LKH for a TSP, with the version as far as it is known.

        Raises
        ------
        SolverUnavailable
        """
        return _first_route("tsp").version

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
        initial: Sequence[ArrayLike] | None = None,
    ) -> list[Solution]:
        """Solve instances one after the other: :class:`nco.solvers.base.Solver`, and tours to improve.

        Parameters
        ----------
        initial : sequence of int arrays, optional
            For TSPs only: the tour [N] that LKH starts from, of each instance.

        Raises
        ------
        UsageError
            Also if the route or the initial tours do not suit the instances.
        """
        require_problem(self, instances)
        if initial is not None and len(initial) != len(instances):
            raise UsageError(f"{len(initial)} initial tours for {len(instances)} instances")
        if initial is not None and any(instance.problem != "tsp" for instance in instances):
            raise UsageError("LKH takes initial tours for TSPs only")
        is_large = any(instance.num_nodes >= _LKHPY_LIMIT for instance in instances)
        routes = {
            problem: self._find_route(problem, is_large) for problem in {instance.problem for instance in instances}
        }

        def solve_one(number: int, instance: Instance) -> Solution:
            start = None if initial is None else initial[number]
            return self._solve(instance, routes[instance.problem], seed, time_limit, start)

        return solve_in_turn(instances, solve_one, progress)

    def _find_route(self, problem: str, is_large: bool) -> _Route:
        if self.route is None:
            return _first_route(problem, is_large)
        if self.route == "elkai" and problem == "cvrp":
            raise UsageError("the route elkai to LKH is for TSPs only")
        return _find(self.route)

    def _solve(
        self, instance: Instance, route: _Route, seed: int, time_limit: float | None, initial: ArrayLike | None
    ) -> Solution:
        began = time.perf_counter()
        info: dict[str, object] = {"route": route.name, "version": route.version, "runs": self.runs}
        if initial is not None:
            check_routes(instance, [initial])
        routes = tiny_routes(instance)
        if routes is None:
            routes = self._search(instance, route, seed, time_limit, initial, info)
        seconds = time.perf_counter() - began
        return Solution.judged(instance, routes, seconds=seconds, solver=self.name, seed=seed, info=info)

    def _search(
        self,
        instance: Instance,
        route: _Route,
        seed: int,
        time_limit: float | None,
        initial: ArrayLike | None,
        info: dict[str, object],
    ) -> Routes:
        """Return the routes of the first search whose result is feasible, and add to ``info``."""
        began = time.monotonic()
        whole, info["scale"] = whole_instance(instance, self.scale)
        for given, fleet in attempts(whole, self.spare_vehicles):
            left = time_limit
            if time_limit is not None:  # a second search has a second, if the first has spent the time
                left = max(min(1.0, time_limit), time_limit - (time.monotonic() - began))
            parameters = search_parameters(given, self.runs, self.max_trials, seed, left)
            info["max_trials"] = parameters["MAX_TRIALS"]
            if instance.problem == "cvrp":
                info["vehicles"] = fleet.get("VEHICLES", 1)
            visits = self._run(
                given, parameters | fleet, initial, route, instance.name, wall_limit(self.kill_after, left)
            )
            routes = visited_routes(instance, visits)
            try:
                check_routes(instance, routes)
            except InfeasibleSolution as error:
                fault = error
            else:
                return routes
        raise SolverError(f"{fault}; LKH has found nothing better") from fault

    def _run(
        self,
        instance: Instance,
        parameters: dict[str, object],
        initial: ArrayLike | None,
        route: _Route,
        name: str,
        timeout: float | None,
    ) -> list[int]:
        worker = self._workers.setdefault(route.name, Worker(route.name))
        with tempfile.TemporaryDirectory(prefix="nco-lkh-") as folder:
            job = write_job(Path(folder), instance, parameters, initial)
            return worker.run({**job, "executable": route.executable}, name, timeout)


def _first_route(problem: str, is_large: bool = False) -> _Route:
    """Return the first way to LKH that is there; for large TSPs LKHpy comes last.

    Raises
    ------
    SolverUnavailable
        Naming them all.
    """
    names = [name for name in ROUTES if problem == "tsp" or name != "elkai"]
    if is_large:
        names.sort(key=lambda name: name == "lkhpy")
    for name in names:
        try:
            return _find(name)
        except SolverUnavailable:
            if name == "executable" and os.environ.get("LKH_EXE"):
                raise  # who names one wants that one
    raise SolverUnavailable(
        "needs LKH: an LKH-3 executable that LKH_EXE names or the PATH has as LKH, or pip install 'nco[baselines]', "
        "which brings LKHpy (Python below 3.13) and elkai (Python below 3.14, TSP only)"
    )


def _find(name: str) -> _Route:
    """Return one way to LKH.

    Raises
    ------
    SolverUnavailable
        If it is not there.
    """
    if name in _MODULES:
        version = require_package(_MODULES[name], _MODULES[name])
        return _Route(name, f"{version} ({_INSIDE[version]})" if version in _INSIDE else version)
    named = os.environ.get("LKH_EXE")
    found = next(filter(None, map(shutil.which, [named] if named else ["LKH", "LKH-3"])), None)
    if found is None:
        raise SolverUnavailable(
            f"LKH_EXE names {named!r}, which is no executable" if named else "the PATH has no executable LKH or LKH-3"
        )
    return _Route(name, found, executable=found)
