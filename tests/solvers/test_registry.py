from __future__ import annotations

import numpy as np
import pytest
from small_instances import random_cvrp, random_tsp

from nco.errors import InfeasibleSolution, SolverUnavailable, UsageError
from nco.instance import Instance
from nco.solution import Solution
from nco.solvers import Solver, make_solver, register, solver_names, solver_table
from nco.solvers.base import SolverError, availability, require_package, solve_in_turn

BASELINES = ("lkh", "hgs", "pyvrp", "fast-tsp", "ortools")


def identity(number: int, instance: Instance) -> Solution:
    """Visit the nodes of a TSP in their order."""
    return Solution.judged(instance, [np.arange(instance.num_nodes)])


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_keep_the_protocol(name):
    """Each baseline is registered under its name and has what the protocol asks for."""
    solver = make_solver(name)
    assert isinstance(solver, Solver)
    assert solver.name == name
    assert set(solver.problems) <= {"tsp", "cvrp"}
    assert solver_table()[name] is type(solver)


def test_names_are_sorted():
    """All solvers are listed, in order."""
    assert solver_names() == sorted(solver_names())
    assert set(BASELINES) <= set(solver_names())


def test_two_solvers_of_one_name_are_refused():
    """A name belongs to one class; registering that one again is no fault."""
    solver = solver_table()["lkh"]
    assert register("lkh")(solver) is solver
    with pytest.raises(ValueError, match="two solvers are called 'lkh'"):
        register("lkh")(type("Other", (), {}))


def test_unknown_solver_is_named():
    """A misspelt solver's message lists those that there are."""
    with pytest.raises(UsageError, match=r"no solver named 'lhk'; there are .*lkh"):
        make_solver("lhk")


@pytest.mark.parametrize("name", BASELINES)
def test_unknown_option_is_named(name):
    """A misspelt option is never ignored."""
    with pytest.raises(UsageError, match=f"solver '{name}' has no option 'sekonds'; it has "):
        make_solver(name, {"sekonds": 1})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lkh", {"runs": 0}),
        ("lkh", {"runs": 1.5}),
        ("lkh", {"max_trials": 0}),
        ("lkh", {"spare_vehicles": -1}),
        ("lkh", {"scale": 0.0}),
        ("lkh", {"scale": "big"}),
        ("lkh", {"kill_after": -1.0}),
        ("lkh", {"route": "pylkh"}),
        ("hgs", {"iterations": 0}),
        ("hgs", {"kill_after": 0}),
        ("pyvrp", {"iterations": True}),
        ("fast-tsp", {"seconds": 0}),
        ("ortools", {"seconds": "ten"}),
    ],
)
def test_value_out_of_range_is_refused(name, options):
    """An option's value that makes no sense is refused when the solver is built, with the option's value."""
    [value] = options.values()
    with pytest.raises(UsageError, match=f"{value!r}"):
        make_solver(name, options)


@pytest.mark.parametrize("name", ["hgs", "fast-tsp"])
def test_problem_of_another_kind_is_refused(name):
    """A solver of one problem refuses the other by the instance's name."""
    instance = random_tsp(5, 1) if name == "hgs" else random_cvrp(5, 1)
    with pytest.raises(
        UsageError, match=f"instance '{instance.name}': solver '{name}' solves .*, not {instance.problem}"
    ):
        make_solver(name).solve([instance], seed=1)


def require_installed(name):
    """Skip the test of a solver whose package is missing."""
    is_there, reason = availability(name)
    if not is_there:
        pytest.skip(reason)


@pytest.mark.parametrize("name", ["hgs", "pyvrp", "fast-tsp", "ortools"])
def test_instance_too_large_for_a_matrix_is_refused(name):
    """Solvers that need a dense matrix refuse more than 5,000 nodes before they build one."""
    require_installed(name)
    instance = random_cvrp(5_000, 1) if name == "hgs" else random_tsp(5_001, 1)
    with pytest.raises(UsageError, match=f"{instance.name}.*5001 nodes are too many.*limit is 5000"):
        make_solver(name).solve([instance], seed=1)


@pytest.mark.parametrize("name", ["pyvrp", "fast-tsp", "ortools"])
def test_negative_weights_are_refused(name):
    """Solvers that cannot work with negative weights say so."""
    require_installed(name)
    weights = np.array([[0.0, 1, 2], [1, 0, -1], [2, -1, 0]])
    instance = Instance("negative", "tsp", metric="EXPLICIT", weights=weights)
    with pytest.raises(UsageError, match=f"instance 'negative': solver '{name}' takes no negative weights"):
        make_solver(name).solve([instance], seed=1)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.usefixtures("nothing_installed")
def test_missing_package_is_reported(name):
    """Without its package a solver can be built, is not available, and says what installs it when it should solve."""
    instance = random_cvrp(5, 1) if name == "hgs" else random_tsp(5, 1)
    solver = make_solver(name)
    with pytest.raises(SolverUnavailable, match=r"pip install 'nco\[(baselines|ortools)\]'") as caught:
        solver.solve([instance], seed=1)
    assert availability(name) == (False, str(caught.value))


@pytest.mark.parametrize(("name", "module"), [("hgs", "hygese"), ("pyvrp", "pyvrp"), ("ortools", "ortools")])
def test_availability_states_the_version(name, module):
    """Of what is installed, availability tells name and version without importing it."""
    version = pytest.importorskip("importlib.metadata").version
    pytest.importorskip(module)
    assert availability(name) == (True, f"{module} {version(module)}")


def test_availability_of_a_stranger_is_an_error():
    """Asking for a solver that does not exist is a usage error, not an absence."""
    with pytest.raises(UsageError, match="no solver named 'concorde'"):
        availability("concorde")


def test_missing_package_names_its_extra():
    """The line that installs a package names the extra of nco that has it."""
    with pytest.raises(SolverUnavailable, match=r"the package no-such-thing: pip install 'nco\[ortools\]'"):
        require_package("no_such_thing", "no-such-thing", extra="ortools")


def test_failure_does_not_lose_the_others():
    """All instances are tried; the error names those that failed and carries the solutions of the others."""
    instances = [random_tsp(4, seed) for seed in range(4)]
    reports = []

    def solve_one(number, instance):
        if number == 1:
            raise SolverError(f"instance {instance.name!r}: lost")
        if number == 2:
            return Solution.judged(instance, [[0, 1]])
        return identity(number, instance)

    with pytest.raises(SolverError, match="'tsp-4-1': lost; instance 'tsp-4-2': node 2 is visited 0 times") as caught:
        solve_in_turn(instances, solve_one, lambda done, total: reports.append((done, total)))
    assert [solution is None for solution in caught.value.solutions] == [False, True, True, False]
    assert reports == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_fault_of_the_program_stops_at_once():
    """Only failures to solve are collected: any other error comes through."""
    with pytest.raises(ZeroDivisionError):
        solve_in_turn([random_tsp(4, 1)], lambda number, instance: 1 // 0, None)


def test_order_of_solutions_is_that_of_instances():
    """Solutions come in the order of the instances, of whatever sizes."""
    instances = [random_tsp(size, 1) for size in (5, 3, 4)]
    assert [len(solution.routes[0]) for solution in solve_in_turn(instances, identity, None)] == [5, 3, 4]


def test_judge_has_the_last_word():
    """A solution that is infeasible is none."""
    with pytest.raises(SolverError) as caught:
        solve_in_turn([random_tsp(4, 1)], lambda number, instance: Solution.judged(instance, [[0, 0, 1, 2]]), None)
    assert isinstance(caught.value.__cause__, InfeasibleSolution)
