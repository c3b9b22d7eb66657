"""Simple construction heuristics as solvers: the yardsticks at the short end of every table."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nco.instance import Instance
from nco.solution import Solution, split_giant_tour
from nco.solvers.base import Progress, register, require_problem, solve_in_turn


class Heuristic:
    """A heuristic that builds one solution in the plane, whatever the time limit.

    An instance of another metric is built on its network coordinates and costed in its own metric.
    """

    name = "heuristic"
    problems: tuple[str, ...] = ("tsp",)

    def build(self, instance: Instance, coords: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a giant tour."""
        raise NotImplementedError

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> list[Solution]:
        """Solve instances one after another; see :class:`nco.solvers.base.Solver`."""
        require_problem(self, instances)

        def solve_one(number: int, instance: Instance) -> Solution:
            started = time.perf_counter()
            tour = self.build(instance, instance.network_coords, np.random.default_rng([seed, number]))
            seconds = time.perf_counter() - started
            routes = split_giant_tour(instance.problem, tour)
            return Solution.judged(instance, routes, seconds=seconds, solver=self.name, seed=seed)

        return solve_in_turn(instances, solve_one, progress)


@register("nearest-neighbour")
class NearestNeighbour(Heuristic):
    """From a random node, or the depot, always on to the nearest open node that fits."""

    problems = ("tsp", "cvrp")

    def build(self, instance: Instance, coords: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a giant tour."""
        from nco.search.insertion import nearest_neighbour

        return nearest_neighbour(coords, int(rng.integers(instance.num_nodes)), instance.demand, instance.capacity)


@register("random-insertion")
class RandomInsertion(Heuristic):
    """Nodes in random order, each where it adds least to the length."""

    problems = ("tsp", "cvrp")

    def build(self, instance: Instance, coords: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a giant tour."""
        from nco.search.insertion import random_insertion

        return random_insertion(coords, rng, instance.demand, instance.capacity)


@register("savings")
class Savings(Heuristic):
    """Routes of one customer, joined at their ends where that saves most (Clarke and Wright 1964)."""

    problems = ("cvrp",)

    def build(self, instance: Instance, coords: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a giant tour; chance plays no part."""
        from nco.search.savings import savings

        assert instance.demand is not None and instance.capacity is not None
        return savings(coords, instance.demand, instance.capacity)


@register("nearest-insertion")
class NearestInsertion(Heuristic):
    """The node nearest to the tour comes next, where it adds least."""

    def build(self, instance: Instance, coords: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a giant tour."""
        from nco.search.insertion import nearest_insertion

        return nearest_insertion(coords, rng)


@register("farthest-insertion")
class FarthestInsertion(Heuristic):
    """The node farthest from the tour comes next, where it adds least."""

    def build(self, instance: Instance, coords: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a giant tour."""
        from nco.search.insertion import farthest_insertion

        return farthest_insertion(coords, rng)
