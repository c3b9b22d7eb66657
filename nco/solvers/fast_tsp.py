"""fast-tsp: Or-opt and Or-3opt local search with perturbations, for TSPs of some thousand nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from nco.instance import Instance
from nco.solution import Solution
from nco.solvers.base import (
    Progress,
    check_positive,
    register,
    require_matrix,
    require_package,
    require_problem,
    solve_in_turn,
)
from nco.solvers.rounding import whole_distances

# fast-tsp keeps distances in 16 bits.
_LARGEST_DISTANCE = 2**16 - 1


@register("fast-tsp")
class FastTSP:
    """The solver of the package fast-tsp, on one thread.

    Parameters
    ----------
    seconds : float
        Wall-clock seconds for an instance where ``solve`` is given no time limit. All of them are used beyond 20
        nodes; smaller instances are solved exactly.

    Notes
    -----
    The package takes no seed, and its tours depend on the speed of the machine. Their ``seed`` is None.
    """

    name = "fast-tsp"
    problems: tuple[str, ...] = ("tsp",)

    def __init__(self, seconds: float = 2.0):
        check_positive(self.name, seconds=seconds)
        self.seconds = seconds

    @classmethod
    def available(cls) -> str:
        """Return the package and its version.

        Raises
        ------
        SolverUnavailable
        """
        return require_package("fast_tsp", "fast-tsp")

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
        import fast_tsp

        limit = self.seconds if time_limit is None else time_limit

        def solve_one(number: int, instance: Instance) -> Solution:
            began = time.perf_counter()
            distances, scale = whole_distances(instance, _LARGEST_DISTANCE)
            tour = np.array(fast_tsp.find_tour(distances, duration_seconds=limit, max_threads=1))
            seconds = time.perf_counter() - began
            info = {"version": version, "time_limit": limit, "scale": scale}
            return Solution.judged(instance, [tour], seconds=seconds, solver=self.name, info=info)

        return solve_in_turn(instances, solve_one, progress)
