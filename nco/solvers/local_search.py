"""The iterated local search as a solver: the classical yardstick that every neural TSP solver is compared with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from nco.geometry import DENSE_LIMIT
from nco.instance import Instance
from nco.solution import Solution, routes_cost
from nco.solvers.base import Progress, check_positive, check_whole, register, require_problem, solve_in_turn


@register("ils")
class IteratedLocalSearch:
    """Random insertion, then 2-opt, Or-opt and 3-opt with double-bridge kicks, in the instance's own metric.

    A GEO instance above 5,000 nodes is searched in the plane of its degrees, and the better of start and result kept.

    Parameters
    ----------
    iterations : int, optional
        Kicks for an instance. By default all that the time limit has room for, and without one 20 for each node.
    neighbours : int
        Length of the neighbour lists.
    temperature : float
        Where the acceptance of longer tours begins, in mean edge lengths; 0 accepts none.
    threads : int
        Instances that are solved at once. The tours do not depend on it, unless a time limit is given.
    """

    name = "ils"
    problems: tuple[str, ...] = ("tsp",)

    def __init__(self, iterations: int | None = None, neighbours: int = 10, temperature: float = 0.5, threads: int = 1):
        check_whole(self.name, 0, iterations=iterations)
        check_whole(self.name, 1, neighbours=neighbours, threads=threads)
        if temperature != 0:
            check_positive(self.name, temperature=temperature)
        self.iterations = iterations
        self.neighbours = neighbours
        self.temperature = temperature
        self.threads = threads

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> list[Solution]:
        """Solve instances, ``threads`` at a time; see :class:`nco.solvers.base.Solver`."""
        require_problem(self, instances)
        if instances:
            # Compiling the kernels, or loading them, counts against no instance's time limit.
            square = Instance("square", "tsp", np.array([[0, 0], [0, 1], [1, 2], [1, 1], [1, 0]]))
            self._solve_one(square, np.random.SeedSequence(0), seed, None)
        with ThreadPoolExecutor(self.threads) as pool:
            pending = [
                pool.submit(self._solve_one, instance, np.random.SeedSequence([seed, number]), seed, time_limit)
                for number, instance in enumerate(instances)
            ]
            return solve_in_turn(instances, lambda number, _: pending[number].result(), progress)

    def _solve_one(
        self, instance: Instance, randomness: np.random.SeedSequence, seed: int, time_limit: float | None
    ) -> Solution:
        from nco.search.insertion import random_insertion
        from nco.search.space import neighbour_lists, space_of
        from nco.search.tsp_local_search import iterated_local_search

        began = time.perf_counter()
        rng = np.random.default_rng(randomness)
        iterations = self.iterations
        if iterations is None and time_limit is None:
            iterations = 20 * instance.num_nodes
        start = random_insertion(instance.network_coords, rng)
        space = space_of(instance)
        lists = neighbour_lists(space, self.neighbours)
        spent = time.perf_counter() - began
        result = iterated_local_search(
            space,
            start,
            lists,
            rng=rng,
            iterations=iterations,
            time_limit=None if time_limit is None else max(0.0, time_limit - spent),
            temperature=self.temperature,
        )
        tour, trace = result.tour, [(spent + seconds, length) for seconds, length in result.trace]
        if instance.metric == "GEO" and instance.num_nodes > DENSE_LIMIT:
            tour, trace = min(tour, start, key=lambda nodes: routes_cost(instance, [nodes])), []
        return Solution.judged(
            instance,
            [tour],
            seconds=time.perf_counter() - began,
            solver=self.name,
            seed=seed,
            trace=trace,
            info={"iterations": result.iterations, "neighbours": self.neighbours, "threads": self.threads},
        )
