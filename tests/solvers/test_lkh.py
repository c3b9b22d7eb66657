from __future__ import annotations

import importlib.util
import os
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_instances import optimum, random_cvrp, random_tsp

from nco.data import read_instance
from nco.errors import InfeasibleSolution, SolverUnavailable, UsageError
from nco.instance import Instance
from nco.solvers import make_solver
from nco.solvers.base import SolverError, availability
from nco.solvers.lkh_files import LONGEST, visited_routes, whole_instance

PACKAGES = [route for route, module in (("lkhpy", "LKHpy"), ("elkai", "elkai")) if importlib.util.find_spec(module)]

# What stands for LKH: it reads the parameters as LKH does and writes the nodes in their order, the customers cut into
# as many equal parts as there are vehicles. What it was given is kept beside it.
FAKE = f"""#!{sys.executable}
import os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
assert sys.stdin.read() == ""
text = pathlib.Path(sys.argv[1]).read_text()
with open(here / "log", "a") as log:
    log.write(text + "END\\n")
parameters = dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)
problem = dict(
    line.split(" : ", 1) for line in pathlib.Path(parameters["PROBLEM_FILE"]).read_text().splitlines() if " : " in line
)
size = int(problem["DIMENSION"])
%s
order = list(range(1, size + 1))
if "INITIAL_TOUR_FILE" in parameters:
    lines = pathlib.Path(parameters["INITIAL_TOUR_FILE"]).read_text().split()
    order = [int(word) for word in lines[lines.index("TOUR_SECTION") + 1 : lines.index("-1")]]
vehicles = int(parameters.get("VEHICLES", 1))
parts = [order[1:][part * (size - 1) // vehicles : (part + 1) * (size - 1) // vehicles] for part in range(vehicles)]
tour = order[:1] + parts[0]
for copy, part in enumerate(parts[1:]):
    tour += [size + copy + 1] + part
lines = ["NAME : instance.1_2.tour", "TOUR_SECTION", *map(str, tour), "-1", "EOF"]
pathlib.Path(parameters["TOUR_FILE"]).write_text("\\n".join(lines) + "\\n")
"""


class FakeLKH:
    """An executable that stands for LKH, found through LKH_EXE."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.path = folder / "LKH"
        self.monkeypatch = monkeypatch
        self.install("")

    def install(self, action: str) -> None:
        """Let it carry out some lines of Python before it writes the tour; ``size`` is the number of nodes."""
        self.path.write_text(FAKE % action)
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)
        self.monkeypatch.setenv("LKH_EXE", str(self.path))

    def calls(self) -> list[dict[str, str]]:
        """Return the parameters of each call."""
        texts = (self.path.parent / "log").read_text().split("END\n")[:-1]
        return [dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line) for text in texts]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Return an executable that stands for LKH."""
    return FakeLKH(tmp_path, monkeypatch)


# The ways to LKH


@pytest.mark.skipif(not PACKAGES, reason="neither LKHpy nor elkai is installed")
def test_packages_are_used_where_there_is_no_executable(monkeypatch):
    """Without an executable one of the packages solves a TSP to its optimum, and says which LKH it is."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("LKH_EXE", raising=False)
    instance = random_tsp(9, 1)
    [solution] = make_solver("lkh").solve([instance], seed=1)
    assert solution.cost == pytest.approx(optimum(instance))
    assert solution.info["route"] == PACKAGES[0]
    assert availability("lkh") == (True, solution.info["version"])


@pytest.mark.parametrize("route", PACKAGES)
@pytest.mark.parametrize(
    "name", ["berlin52.tsp", "att48.tsp", "ulysses22.tsp", "gr17.tsp", "bayg29.tsp", "st70.tsp", "eil101.tsp"]
)
def test_published_optima(shared, route, name):
    """LKH finds the published optima of TSPLIB, in the files' own metrics."""
    optima = {
        "berlin52": 7542,
        "att48": 10628,
        "ulysses22": 7013,
        "gr17": 2085,
        "bayg29": 1610,
        "st70": 675,
        "eil101": 629,
    }
    instance = read_instance(shared / "bench" / "tsplib" / name)
    [solution] = make_solver("lkh", {"route": route}).solve([instance], seed=1)
    assert solution.cost == optima[instance.name.lower().removesuffix(".tsp")]
    assert solution.info["scale"] == 1


@pytest.mark.skipif("lkhpy" not in PACKAGES, reason="LKHpy is not installed")
def test_published_optimum_of_a_cvrp(shared):
    """LKH finds the published optimum of a CVRP that is given as a matrix."""
    instance = read_instance(shared / "bench" / "cvrplib" / "E-n13-k4.vrp")
    [solution] = make_solver("lkh", {"route": "lkhpy", "max_trials": 50}).solve([instance], seed=1)
    assert solution.cost == 247


def test_executable_comes_first(fake):
    """The executable that LKH_EXE names is used before any package."""
    [solution] = make_solver("lkh").solve([random_tsp(5, 1)], seed=1)
    assert solution.routes[0].tolist() == [0, 1, 2, 3, 4]
    assert solution.info["version"] == str(fake.path)


def test_executable_on_the_path(fake, monkeypatch):
    """An executable called LKH on the PATH is found."""
    monkeypatch.delenv("LKH_EXE")
    monkeypatch.setenv("PATH", str(fake.path.parent), prepend=os.pathsep)
    assert availability("lkh") == (True, str(fake.path))


def test_named_executable_must_exist(fake):
    """A wrong LKH_EXE is no reason to use another LKH silently."""
    fake.path.unlink()
    with pytest.raises(SolverUnavailable, match=f"LKH_EXE names '{fake.path}', which is no executable"):
        make_solver("lkh").solve([random_tsp(5, 1)], seed=1)


@pytest.mark.usefixtures("nothing_installed")
def test_all_ways_are_named():
    """Without any LKH, the error names the three ways to one."""
    with pytest.raises(SolverUnavailable, match=r"LKH_EXE.*PATH.*pip install 'nco\[baselines\]'.*LKHpy.*elkai"):
        make_solver("lkh").solve([random_tsp(5, 1)], seed=1)


def test_elkai_solves_no_cvrp():
    """The LKH inside elkai crashes on a CVRP, so it never gets one."""
    with pytest.raises(UsageError, match="the route elkai to LKH is for TSPs only"):
        make_solver("lkh", {"route": "elkai"}).solve([random_cvrp(5, 1)], seed=1)


@pytest.mark.skipif(len(PACKAGES) < 2, reason="needs both LKHpy and elkai")
def test_large_tsps_go_to_elkai(monkeypatch):
    """LKHpy's LKH crashes on large TSPs, so they take the other package; smaller ones stay with LKHpy."""
    monkeypatch.delenv("LKH_EXE", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("nco.solvers.lkh._LKHPY_LIMIT", 9)
    (large,) = make_solver("lkh").solve([random_tsp(9, 1)], seed=1)
    (small,) = make_solver("lkh").solve([random_tsp(8, 1)], seed=1)
    assert (large.info["route"], small.info["route"]) == ("elkai", "lkhpy")


def test_elkai_is_no_way_to_a_cvrp(monkeypatch, nothing_installed):
    """Where there is only elkai, LKH is available for TSPs and not for CVRPs."""
    pytest.importorskip("importlib")
    monkeypatch.delitem(sys.modules, "elkai")
    pytest.importorskip("elkai")
    assert availability("lkh")[0]
    with pytest.raises(SolverUnavailable, match="needs LKH"):
        make_solver("lkh").solve([random_cvrp(5, 1)], seed=1)


# What LKH is given


def test_parameters(fake):
    """LKH gets runs, trials, a seed that is never 0, and its share of the time limit for each run."""
    instances = [random_tsp(5, 1), random_cvrp(6, 1)]
    solutions = make_solver("lkh", {"runs": 4}).solve(instances, seed=2**31 - 1, time_limit=2.0)
    tsp, cvrp = fake.calls()
    assert (tsp["RUNS"], tsp["MAX_TRIALS"], tsp["SEED"]) == ("4", "5", "1")
    assert float(tsp["TIME_LIMIT"]) == pytest.approx(0.5, abs=0.1)
    assert (cvrp["MAX_TRIALS"], "SPECIAL" in fake.path.with_name("log").read_text()) == ("1000", True)
    assert [solution.info["max_trials"] for solution in solutions] == [5, 1000]
    assert [solution.info["runs"] for solution in solutions] == [4, 4]


def test_trials_can_be_chosen(fake):
    """The option max_trials holds for TSP and CVRP, and without a time limit LKH gets none."""
    make_solver("lkh", {"max_trials": 7}).solve([random_tsp(5, 1), random_cvrp(6, 1)], seed=1)
    assert [call["MAX_TRIALS"] for call in fake.calls()] == ["7", "7"]
    assert not any("TIME_LIMIT" in call for call in fake.calls())


@pytest.mark.parametrize(("nodes", "candidates"), [(2_000, None), (2_001, "POPMUSIC")])
def test_large_instances_get_lean_candidates(fake, nodes, candidates):
    """Above 2,000 nodes LKH does not use its candidates of quadratic time."""
    make_solver("lkh").solve([random_tsp(nodes, 1)], seed=1)
    assert fake.calls()[0].get("CANDIDATE_SET_TYPE") == candidates


def test_initial_tour(fake):
    """LKH starts from the tour that it is given."""
    tour = [3, 1, 0, 4, 2]
    [solution] = make_solver("lkh").solve([random_tsp(5, 1)], seed=1, initial=[np.array(tour)])
    assert solution.routes[0].tolist() == tour


@pytest.mark.parametrize("route", PACKAGES)
def test_packages_start_from_the_initial_tour(route):
    """With one trial the result from an optimal tour is that tour, though LKH alone does not find it."""
    instance = random_tsp(150, 16)
    solver = make_solver("lkh", {"route": route, "max_trials": 1})
    [alone] = solver.solve([instance], seed=1)
    [best] = make_solver("lkh", {"route": route}).solve([instance], seed=1)
    [improved] = solver.solve([instance], seed=1, initial=[best.routes[0]])
    assert improved.cost == pytest.approx(best.cost)
    assert best.cost < alone.cost - 1e-3


def test_unfit_initial_tours_are_refused(fake):
    """There is one feasible initial tour for each instance, and none for a CVRP."""
    solver = make_solver("lkh")
    with pytest.raises(UsageError, match="2 initial tours for 1 instances"):
        solver.solve([random_tsp(5, 1)], seed=1, initial=[np.arange(5)] * 2)
    with pytest.raises(UsageError, match="initial tours for TSPs only"):
        solver.solve([random_cvrp(5, 1)], seed=1, initial=[np.arange(6)])
    with pytest.raises(SolverError, match="node 4 is visited 0 times") as caught:
        solver.solve([random_tsp(5, 1)], seed=1, initial=[np.arange(4)])
    assert isinstance(caught.value.__cause__, InfeasibleSolution)


def test_span_is_scaled_to_a_million():
    """Unrounded coordinates get a span of 1,000,000 and start at 0; the aspect ratio is kept."""
    coords = np.array([[-2.0, 5.0], [2.0, 5.5], [0.0, 7.0]])
    whole, scale = whole_instance(Instance("x", "tsp", coords))
    assert scale == 250_000
    assert whole.metric == "EUC_2D"
    assert whole.coords.tolist() == [[0, 0], [1_000_000, 125_000], [500_000, 500_000]]


@pytest.mark.parametrize("metric", ["EUC_2D", "CEIL_2D", "ATT"])
def test_long_distances_are_scaled(metric):
    """Rounded metrics are kept as long as no distance overflows LKH's 32 bits, and scaled beyond."""
    coords = np.array([[0.0, 0.0], [6e6, 8e6], [1.0, 1.0]])
    kept, scale = whole_instance(Instance("short", "tsp", coords, metric))
    assert (kept.metric, scale) == (metric, 1)
    scaled, scale = whole_instance(Instance("long", "tsp", coords * 1.01, metric))
    assert (scaled.metric, scale) == ("EUC_2D", pytest.approx(1e6 / 8.08e6))


def test_matrix_of_fractions_is_scaled():
    """A matrix of fractions is scaled to whole numbers up to LKH's limit; one of whole numbers is kept."""
    weights = np.array([[0, 0.5, 1], [0.5, 0, 0.75], [1, 0.75, 0]])
    scaled, scale = whole_instance(Instance("f", "tsp", metric="EXPLICIT", weights=weights))
    assert scale == LONGEST
    assert scaled.weights[0].tolist() == [0, 5_000_000, 10_000_000]
    kept, scale = whole_instance(Instance("w", "tsp", metric="EXPLICIT", weights=4 * weights))
    assert (kept.weights.tolist(), scale) == ((4 * weights).tolist(), 1)


def test_scale_that_overflows_is_refused():
    """A scale chosen too large is refused, not cut."""
    with pytest.raises(UsageError, match=r"'tsp-5-1': the scale 1e\+08 makes distances of up to"):
        make_solver("lkh", {"scale": 1e8, "route": PACKAGES[0] if PACKAGES else None}).solve([random_tsp(5, 1)], seed=1)


def test_loads_beyond_32_bits_are_refused():
    """Demands whose sum LKH cannot hold are refused by name."""
    instance = Instance("heavy", "cvrp", np.eye(4, 2), demand=np.array([0, 2**30, 2**30, 1]), capacity=2**30)
    with pytest.raises(UsageError, match=f"'heavy': LKH takes demands of at most {2**31 - 1} in all"):
        whole_instance(instance)


# Vehicles


def test_fleet_grows_until_it_suffices(fake):
    """A result that overloads a vehicle is tried again with one vehicle more, and then some may stay empty."""
    instance = Instance("eight", "cvrp", random_tsp(9, 1).coords, demand=np.r_[0, np.ones(8, int)], capacity=4)
    skewed = replace(instance, demand=np.array([0, 1, 1, 2, 2, 2, 1, 1, 1]), capacity=6)
    [even, uneven] = make_solver("lkh", {"spare_vehicles": 0}).solve([instance, skewed], seed=1)
    assert (even.info["vehicles"], uneven.info["vehicles"]) == (2, 2)
    tight = replace(instance, demand=np.array([0, 2, 2, 2, 1, 1, 1, 1, 1]), capacity=6)
    [solution] = make_solver("lkh", {"spare_vehicles": 0}).solve([tight], seed=1)
    assert solution.info["vehicles"] == 3
    assert [(call["VEHICLES"], call.get("MTSP_MIN_SIZE")) for call in fake.calls()[2:]] == [("2", None), ("3", "0")]


def test_spare_vehicle(fake):
    """By default there is a vehicle more than the smallest fleet, but never more vehicles than customers."""
    two = Instance("two", "cvrp", random_tsp(9, 1).coords, demand=np.r_[0, np.ones(8, int)], capacity=4)
    full = Instance("full", "cvrp", random_tsp(5, 1).coords, demand=np.array([0, 3, 3, 3, 3]), capacity=4)
    solutions = make_solver("lkh").solve([two, full], seed=1)
    assert [solution.info["vehicles"] for solution in solutions] == [3, 4]


def test_one_vehicle_is_a_tsp(fake):
    """Where one vehicle takes all demands, LKH gets a TSP."""
    instance = Instance("light", "cvrp", random_tsp(6, 1).coords, demand=np.array([0, 1, 1, 1, 1, 0]), capacity=9)
    [solution] = make_solver("lkh").solve([instance], seed=1)
    assert [route.tolist() for route in solution.routes] == [[1, 2, 3, 4, 5]]
    assert ("VEHICLES" in fake.calls()[0], solution.info["vehicles"]) == (False, 1)


def test_overload_to_the_end_is_a_failure(fake):
    """If LKH overloads a vehicle in whatever fleet, the instance has failed, with the judge's reason."""
    fake.install("parameters.pop('VEHICLES')")
    with pytest.raises(SolverError, match="instance 'cvrp-9-4': route 0 carries 39, above the capacity 15"):
        make_solver("lkh").solve([random_cvrp(9, 4)], seed=1)
    assert len(fake.calls()) == 4


def test_depot_copies_separate_routes():
    """Copies of the depot are numbered from N, or 0; a tour may start anywhere; no visits at all are no routes."""
    instance = random_cvrp(5, 1)
    visits = [2, 6, 0, 5, 1, 7, 4, 3]
    assert [route.tolist() for route in visited_routes(instance, visits)] == [[5, 1], [4, 3, 2]]
    assert visited_routes(instance, []) == []


# Failures


def test_killed_process_is_attributed(fake):
    """When LKH's process group is killed, the error names that instance, and the others keep their solutions."""
    fake.install("if size == 6: os.kill(os.getppid(), signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)")
    instances = [random_tsp(size, 1) for size in (5, 6, 7)]
    with pytest.raises(
        SolverError, match="instance 'tsp-6-1': executable failed: its process was killed by signal 9"
    ) as caught:
        make_solver("lkh").solve(instances, seed=1)
    assert "tsp-5-1" not in str(caught.value) and "tsp-7-1" not in str(caught.value)
    assert [solution is None for solution in caught.value.solutions] == [False, True, False]


def test_killed_worker_is_attributed(fake):
    """When the worker that serves all instances is killed, the instance at work fails and a new worker goes on."""
    fake.install("if size == 6: os.kill(os.getpgid(0), signal.SIGKILL); time.sleep(60)")
    instances = [random_tsp(size, 1) for size in (5, 6, 7)]
    with pytest.raises(
        SolverError, match="instance 'tsp-6-1': executable failed: its worker process was killed by signal 9"
    ) as caught:
        make_solver("lkh").solve(instances, seed=1)
    assert [solution is None for solution in caught.value.solutions] == [False, True, False]


def test_failed_executable_is_reported_with_its_words(fake):
    """An executable that ends with an error is reported with its status and the last line it wrote."""
    fake.install("print('*** Error ***', 'CAPACITY not specified', sep='\\n', file=sys.stderr); sys.exit(3)")
    with pytest.raises(SolverError, match="executable failed: its process ended with status 3: CAPACITY not specified"):
        make_solver("lkh").solve([random_tsp(5, 1)], seed=1)


def test_tour_that_is_not_written_is_a_failure(fake):
    """An executable that ends well without a tour has solved nothing."""
    fake.install("sys.exit(0)")
    with pytest.raises(SolverError, match="instance 'tsp-5-1': node 0 is visited 0 times"):
        make_solver("lkh").solve([random_tsp(5, 1)], seed=1)


def test_hanging_process_is_killed(fake):
    """A process that does not end in time is killed, and the next instance is solved."""
    fake.install("while size == 5: (here / 'beat').open('a').write('.'); time.sleep(0.02)")
    with pytest.raises(SolverError, match="instance 'tsp-5-1': executable failed: no answer within 1 s") as caught:
        make_solver("lkh", {"kill_after": 1.0}).solve([random_tsp(5, 1), random_tsp(6, 1)], seed=1)
    assert caught.value.solutions[1] is not None
    beats = (fake.path.parent / "beat").read_text()
    time.sleep(0.5)
    assert (fake.path.parent / "beat").read_text() == beats


@pytest.mark.skipif("lkhpy" not in PACKAGES, reason="LKHpy is not installed")
def test_exit_of_the_library_is_survived(monkeypatch):
    """LKHpy ends its process at a parameter that it does not know: that instance has failed, the next is solved."""

    def attempts(instance, spare_vehicles):
        yield instance, {"VEHICLES": "many"} if instance.problem == "cvrp" else {}

    monkeypatch.setattr("nco.solvers.lkh.attempts", attempts)
    with pytest.raises(SolverError, match="'cvrp-5-1': lkhpy failed: its process ended with status 1") as caught:
        make_solver("lkh", {"route": "lkhpy"}).solve([random_cvrp(5, 1), random_tsp(5, 1)], seed=1)
    assert caught.value.solutions[1] is not None


@pytest.mark.parametrize("route", PACKAGES)
def test_time_limit_ends_the_search(route):
    """With trials almost without end, the time limit ends the search, and its best tour is the solution."""
    solver = make_solver("lkh", {"route": route, "max_trials": 10**8})
    [solution] = solver.solve([random_tsp(40, 1)], seed=1, time_limit=0.1)
    assert solution.info["max_trials"] == 10**8  # which would take hours
