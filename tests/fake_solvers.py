"""Solvers of no use but to test what calls solvers."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from nco.errors import SolverUnavailable
from nco.solution import Solution
from nco.solvers import base


class Fake:
    """Visits the nodes in their order; a CVRP's customers on routes of their own."""

    name = "fake"
    problems: tuple[str, ...] = ("tsp", "cvrp")

    def solve(self, instances, *, seed, time_limit=None, progress=None):
        """Return a solution for each instance."""
        solutions = []
        for number, instance in enumerate(instances, 1):
            solutions.append(self.solution(instance, seed))
            if progress:
                progress(number, len(instances))
        return solutions

    def solution(self, instance, seed):
        """Return one solution."""
        return self.judged(instance, np.arange(instance.num_nodes), seed)

    def judged(self, instance, order, seed):
        """Return the solution that visits the nodes in an order."""
        routes = [order] if instance.problem == "tsp" else [[node] for node in order if node != 0]
        return Solution.judged(instance, routes, seconds=0.5, solver=self.name, seed=seed, info={"trials": np.int64(1)})


class Shuffled(Fake):
    """Visits the nodes in a random order, and keeps a trace."""

    def solution(self, instance, seed):
        """Return one solution."""
        order = np.random.default_rng(seed).permutation(instance.num_nodes)
        solution = self.judged(instance, order, seed)
        solution.trace.extend([(0.1, 2 * solution.cost), (0.4, solution.cost)])
        return solution


class TSPOnly(Fake):
    """Solves no CVRP."""

    problems = ("tsp",)


class FailsOn(Fake):
    """Fails on the instances with some names, and with all that are solved together with them."""

    def __init__(self, names=()):
        self.names = names

    def solution(self, instance, seed):
        """Return one solution."""
        if instance.name in self.names:
            raise ValueError(f"no idea about\n{instance.name}")
        return super().solution(instance, seed)


class Broken(Fake):
    """Fails at once."""

    def __init__(self):
        raise RuntimeError("a screw is loose")


class Partial(Fake):
    """Has no solution for the first of all instances, but keeps the others'."""

    def solve(self, instances, *, seed, time_limit=None, progress=None):
        """Raise the failure that carries the other solutions."""
        solutions = super().solve(instances, seed=seed)
        raise base.SolverError(f"instance {instances[0].name!r}: no time left", [None, *solutions[1:]])


class Unavailable(Fake):
    """Lacks a package."""

    @classmethod
    def available(cls):
        """Raise."""
        raise SolverUnavailable("needs a package: pip install unavailable")

    def solution(self, instance, seed):
        """Raise."""
        raise SolverUnavailable("needs a package: pip install unavailable")


class Cheat(Fake):
    """Leaves out a node and claims a cost of 1."""

    def solution(self, instance, seed):
        """Return one solution, which nobody has judged."""
        return Solution([np.arange(1, instance.num_nodes)[1:]], 1.0, solver=self.name, seed=seed)


class Batched(Fake):
    """Says in ``info`` how many instances it has got together."""

    batched = True

    def solve(self, instances, *, seed, time_limit=None, progress=None):
        """Return a solution for each instance."""
        solutions = super().solve(instances, seed=seed)
        for solution in solutions:
            solution.info["together"] = len(instances)
        return solutions


class Logged(Fake):
    """Writes the name of each instance into a file, then takes its time."""

    def __init__(self, log, seconds=0.0):
        self.log, self.seconds = Path(log), seconds

    def solution(self, instance, seed):
        """Return one solution."""
        with self.log.open("a") as file:
            file.write(f"{instance.name}\n")
        time.sleep(self.seconds)
        return super().solution(instance, seed)


SOLVERS = {
    "fake": Fake,
    "shuffled": Shuffled,
    "tsp-only": TSPOnly,
    "fails-on": FailsOn,
    "broken": Broken,
    "partial": Partial,
    "unavailable": Unavailable,
    "cheat": Cheat,
    "batched": Batched,
    "logged": Logged,
}


def install() -> None:
    """Enter the fakes into the registry, which must not load the real solvers any more."""
    base._MODULES = ()
    for name, solver in SOLVERS.items():
        base.register(name)(solver)


@pytest.fixture
def fakes(monkeypatch):
    """Replace all solvers by the fakes."""
    monkeypatch.setattr(base, "_MODULES", ())
    monkeypatch.setattr(base, "_REGISTRY", {})
    install()
