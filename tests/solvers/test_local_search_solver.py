"""The iterated local search behind the solver protocol."""

from __future__ import annotations

import numpy as np
import pytest
from small_instances import optimum, random_cvrp, random_tsp

from nco.errors import UsageError
from nco.instance import Instance
from nco.solvers import Solver, make_solver


def test_ils_keeps_the_protocol() -> None:
    """It is registered, states its run, and solutions come in the order of the instances."""
    solver = make_solver("ils", {"iterations": 30})
    assert isinstance(solver, Solver)
    instances = [random_tsp(size, size) for size in (30, 2, 7)]
    done: list[tuple[int, int]] = []
    solutions = solver.solve(instances, seed=4, progress=lambda number, total: done.append((number, total)))
    assert [len(solution.routes[0]) for solution in solutions] == [30, 2, 7]
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert solutions[0].solver == "ils"
    assert solutions[0].seed == 4
    assert solutions[0].info == {"iterations": 30, "neighbours": 10, "threads": 1}
    assert solutions[0].trace[-1][1] == pytest.approx(solutions[0].cost)


@pytest.mark.parametrize("metric", ["EXACT", "EUC_2D", "CEIL_2D", "ATT", "GEO"])
def test_ils_is_optimal_on_tiny_instances_of_every_metric(metric: str) -> None:
    """Eight nodes against dynamic programming."""
    instances = [random_tsp(8, seed, metric, 60.0) for seed in range(6)]
    for instance, solution in zip(instances, make_solver("ils").solve(instances, seed=0), strict=True):
        assert solution.cost == pytest.approx(optimum(instance))
        assert solution.trace[-1][1] == pytest.approx(solution.cost)


def test_ils_searches_an_explicit_matrix_itself() -> None:
    """Random weights, which no plane can show, are solved to the optimum."""
    for seed in range(4):
        upper = np.triu(np.random.default_rng(seed).integers(1, 100, (8, 8)), 1)
        instance = Instance("matrix", "tsp", weights=upper + upper.T, metric="EXPLICIT")
        [solution] = make_solver("ils").solve([instance], seed=0)
        assert solution.cost == optimum(instance)


def test_seeds_and_threads() -> None:
    """Tours depend on the seed and the place of the instance, not on the threads."""
    instances = [random_tsp(120, 3), random_tsp(120, 3)]

    def solve(seed: int, threads: int) -> list[list[int]]:
        solver = make_solver("ils", {"iterations": 20, "threads": threads})
        return [solution.routes[0].tolist() for solution in solver.solve(instances, seed=seed)]

    first = solve(1, 1)
    assert first == solve(1, 2)
    assert first != solve(2, 1)
    assert first[0] != first[1]


def test_a_large_geo_instance_is_never_made_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched in the plane of its degrees, it costs at most what its start does, in its own metric."""
    monkeypatch.setattr("nco.geometry.DENSE_LIMIT", 20)
    monkeypatch.setattr("nco.solvers.local_search.DENSE_LIMIT", 20)
    # East of 180 degrees at a high latitude the plane's lengths are quite wrong.
    coords = np.array([75.0, 0.0]) + np.random.default_rng(0).random((40, 2)) * [10.0, 360.0]
    instance = Instance("arctic", "tsp", coords, "GEO")
    [start] = make_solver("random-insertion").solve([instance], seed=0)
    [solution] = make_solver("ils", {"iterations": 100}).solve([instance], seed=0)
    assert solution.cost <= start.cost
    assert solution.trace == []


def test_ils_solves_no_cvrp() -> None:
    """The message names the instance and what the solver solves."""
    with pytest.raises(UsageError, match="'ils' solves tsp, not cvrp"):
        make_solver("ils").solve([random_cvrp(5, 0)], seed=0)


@pytest.mark.parametrize("options", [{"iterations": -1}, {"neighbours": 0}, {"threads": 0}, {"temperature": -1.0}])
def test_bad_options_are_refused(options: dict[str, float]) -> None:
    """Each is named."""
    with pytest.raises(UsageError, match=next(iter(options))):
        make_solver("ils", options)
