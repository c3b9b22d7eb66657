from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from small_instances import random_cvrp

from nco.data import read_instance
from nco.errors import SolverUnavailable
from nco.instance import Instance
from nco.solvers import make_solver
from nco.solvers.base import SolverError, availability
from nco.solvers.hgs import search_data
from nco.solvers.worker import Worker

needs_hgs = pytest.mark.skipif(not availability("hgs")[0], reason="neither hygese nor hybgensea is installed")


@needs_hgs
@pytest.mark.parametrize(("name", "best"), [("E-n13-k4", 247), ("A-n32-k5", 784), ("P-n16-k8", 450)])
def test_published_optima(shared, name, best):
    """HGS finds published optima of CVRPLIB, of points and of a matrix."""
    instance = read_instance(shared / "bench" / "cvrplib" / f"{name}.vrp")
    [solution] = make_solver("hgs", {"iterations": 500}).solve([instance], seed=1)
    assert solution.cost == best
    assert solution.info["iterations"] == 500
    assert solution.info["version"] == availability("hgs")[1]


@needs_hgs
def test_time_limit_reaches_the_engine(monkeypatch):
    """HGS is given the time limit beside its iterations; how long that takes is a matter of its CPU clock."""
    given = []
    run = Worker.run

    def record(self, job, *rest):
        given.append(dict(job["parameters"]))
        return run(self, job, *rest)

    monkeypatch.setattr(Worker, "run", record)
    solver = make_solver("hgs", {"iterations": 1})
    [limited] = solver.solve([random_cvrp(20, 1)], seed=1, time_limit=0.5)
    [unlimited] = solver.solve([random_cvrp(20, 1)], seed=1)
    assert given == [{"nbIter": 1, "seed": 1, "timeLimit": 0.5}, {"nbIter": 1, "seed": 1, "timeLimit": 0.0}]
    assert limited.cost <= unlimited.cost


@needs_hgs
def test_endless_search_is_killed():
    """A search that does not end in time is killed and reported by name; the next instance is solved."""
    solver = make_solver("hgs", {"iterations": 10**9, "kill_after": 0.5})
    with pytest.raises(SolverError, match=r"instance 'cvrp-50-1': .* failed: no answer within 0\.5 s") as caught:
        solver.solve([random_cvrp(50, 1), random_cvrp(1, 1)], seed=1)
    assert caught.value.solutions[0] is None
    assert caught.value.solutions[1] is not None


@needs_hgs
def test_infeasible_search_is_a_failure(monkeypatch):
    """Where HGS finds nothing feasible, the instance has failed."""
    monkeypatch.setattr("nco.solvers.hgs.generous_fleets", lambda instance: [2])
    instance = Instance("trap", "cvrp", np.eye(4, 2), demand=np.array([0, 3, 4, 5]), capacity=6)
    with pytest.raises(SolverError, match="instance 'trap': HGS has found no feasible solution"):
        make_solver("hgs", {"iterations": 50}).solve([instance], seed=1)


@needs_hgs
def test_second_fleet_is_tried(monkeypatch):
    """Where the first fleet does not suffice, the next is tried."""
    monkeypatch.setattr("nco.solvers.hgs.generous_fleets", lambda instance: [2, 3])
    instance = Instance("trap", "cvrp", np.eye(4, 2), demand=np.array([0, 3, 4, 5]), capacity=6)
    [solution] = make_solver("hgs", {"iterations": 50}).solve([instance], seed=1)
    assert solution.info["vehicles"] == 3


def test_second_package_is_a_way_too(monkeypatch):
    """Where hygese is missing, hybgensea is used; where both are, the error names the install line of the first."""
    monkeypatch.setitem(sys.modules, "hygese", None)
    monkeypatch.setattr("nco.solvers.hgs.PACKAGES", ("hygese", "numpy"))  # numpy stands for hybgensea
    assert availability("hgs") == (True, f"numpy {np.__version__}")
    monkeypatch.setattr("nco.solvers.hgs.PACKAGES", ("hygese", "no_such_package"))
    with pytest.raises(SolverUnavailable, match=r"needs the package hygese: pip install 'nco\[baselines\]'"):
        make_solver("hgs").solve([random_cvrp(5, 1)], seed=1)


@pytest.mark.parametrize("size", [1e-6, 1.0, 999.0, 1e9])
def test_numbers_suit_hgs(size):
    """HGS gets distances whose longest is from 1,000 to 10,000, in proportion, and coordinates from 0."""
    instance = random_cvrp(6, 1, size=size)
    data = search_data(instance)
    assert 1_000 <= data["distance_matrix"].max() < 10_000
    ratio = data["distance_matrix"] / (instance.distance_matrix() + np.eye(7))
    np.testing.assert_allclose(ratio[~np.eye(7, dtype=bool)], ratio[0, 1])
    assert data["x_coordinates"].min() == data["y_coordinates"].min() == 0


def test_usual_distances_are_kept():
    """Distances of the size of the X set are not changed, so that its published results can be repeated."""
    instance = random_cvrp(30, 1, metric="EUC_2D", size=1_000.0)
    np.testing.assert_array_equal(search_data(instance)["distance_matrix"], instance.distance_matrix())


def test_large_demands_are_halved_exactly():
    """Demands above HGS's limit are divided by a power of two, so that the sums stay exact."""
    instance = replace(random_cvrp(2, 1, capacity=10**7), demand=np.array([0, 10**6 + 1, 999_999]))
    data = search_data(instance)
    assert data["demands"].max() <= 100_000
    assert (data["demands"] * 16).tolist() == [0, 10**6 + 1, 999_999]
    assert data["vehicle_capacity"] * 16 == 2 * 10**6  # no more than all demands together
