"""The Solver protocol and the registry from names and options to solvers."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from nco.errors import InfeasibleSolution, NcoError, SolverUnavailable, UsageError
from nco.geometry import DENSE_LIMIT
from nco.instance import Instance
from nco.solution import Solution

# Called with (instances done, instances in all), or iterations where all instances advance together.
Progress = Callable[[int, int], None]


class SolverError(NcoError, RuntimeError):
    """Instances without a solution: a solver's process has died or run out of time, or what it returned is infeasible.

    Attributes
    ----------
    solutions : list of (Solution or None)
        Of all instances of a call of ``solve``, in order; None for the failed ones.
    """

    def __init__(self, message: str, solutions: Sequence[Solution | None] = ()):
        super().__init__(message)
        self.solutions = list(solutions)


@runtime_checkable
class Solver(Protocol):
    """What the command line, the labeller and the evaluator see of any solver.

    A solver that needs a package or an executable has a class method ``available() -> str``: it returns what it found,
    with the version, or raises SolverUnavailable. It is cheap: nothing is imported. Building a solver never fails for
    what is missing; ``solve`` does. A solver that works on same-size instances at once says so by ``batched = True``.

    Attributes
    ----------
    name : str
        The registry's name.
    problems : tuple of str
        The problems that it can solve.
    """

    name: str
    problems: tuple[str, ...]

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> list[Solution]:
        """Solve instances of any mix of sizes, in order; every solution has passed the judge.

        Parameters
        ----------
        seed : int
            Same seed, device and thread count give the same tours (unless a time limit cut the search).
        time_limit : float, optional
            Wall-clock seconds per instance. A solver that works on B instances at once may spend B times as much on
            them together and reports the mean for each.
        progress : callable, optional

        Raises
        ------
        SolverUnavailable
            If its package or executable is missing, with the line that installs it.
        UsageError
            If it does not solve the problem of an instance.
        SolverError
            Naming the instances without a solution; it carries the solutions of the others.
        """
        ...


# Modules register their solvers when imported; they are imported only when a solver is asked for.
_MODULES = (
    "nco.solvers.heuristics",
    "nco.solvers.local_search",
    "nco.solvers.lkh",
    "nco.solvers.hgs",
    "nco.solvers.pyvrp",
    "nco.solvers.fast_tsp",
    "nco.solvers.ortools",
    "nco.solvers.l2c_insert",
    "nco.solvers.gflownet",
    "nco.solvers.lehd",
)
_REGISTRY: dict[str, Callable[..., Solver]] = {}


def register(name: str) -> Callable[[type], type]:
    """Return a class decorator that enters a solver under a name and sets its ``name``."""

    def enter(solver: type) -> type:
        if name in _REGISTRY and _REGISTRY[name] is not solver:
            raise ValueError(f"two solvers are called {name!r}")
        solver.name = name  # type: ignore[attr-defined]
        _REGISTRY[name] = solver
        return solver

    return enter


def _load_all() -> None:
    for module in _MODULES:
        importlib.import_module(module)


def solver_names() -> list[str]:
    """Return the names of all solvers, available or not."""
    _load_all()
    return sorted(_REGISTRY)


def solver_table() -> dict[str, Callable[..., Solver]]:
    """Return all registered solvers by name."""
    _load_all()
    return dict(sorted(_REGISTRY.items()))


def make_solver(name: str, options: Mapping[str, Any] | None = None) -> Solver:
    """Build a solver from its name and options.

    Raises
    ------
    UsageError
        If there is no such solver, or it has no such option: misspelt options are never ignored.
    """
    solver = _find(name)
    known = _option_names(solver)
    for option in options or {}:
        if option not in known:
            raise UsageError(f"solver {name!r} has no option {option!r}; it has {', '.join(known) or 'none'}")
    return solver(**(options or {}))


def _option_names(solver: Callable[..., Solver]) -> list[str]:
    """Return the options of a solver's class, and of its base class where it hands ``**options`` on to that."""
    known: list[str] = []
    for one in inspect.getmro(solver) if isinstance(solver, type) else (solver,):
        parameters = inspect.signature(one).parameters.values()
        known += [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return known


def _find(name: str) -> Callable[..., Solver]:
    _load_all()
    if name not in _REGISTRY:
        raise UsageError(f"no solver named {name!r}; there are {', '.join(sorted(_REGISTRY))}")
    return _REGISTRY[name]


def availability(name: str) -> tuple[bool, str]:
    """Tell whether a solver can run here, and what it would use or what it lacks.

    Returns
    -------
    (True, version) or (False, reason)

    Raises
    ------
    UsageError
        If there is no such solver.
    """
    solver = _find(name)
    available = getattr(solver, "available", None)
    if available is None:
        return True, "part of nco"
    try:
        return True, available()
    except SolverUnavailable as error:
        return False, str(error)


def require_package(module: str, distribution: str, extra: str = "baselines") -> str:
    """Return "distribution version" of an installed package, without importing it.

    Parameters
    ----------
    module, distribution : str
        The name to import and the name to install.
    extra : str
        The extra of nco that installs it.

    Raises
    ------
    SolverUnavailable
        If it is not installed.
    """
    if importlib.util.find_spec(module) is None:
        raise SolverUnavailable(f"needs the package {distribution}: pip install 'nco[{extra}]'")
    return f"{distribution} {importlib.metadata.version(distribution)}"


def check_whole(name: str, least: int, **options: object) -> None:
    """Check that options of a solver are None or whole numbers not below ``least``.

    Raises
    ------
    UsageError
        Naming the solver and the option.
    """
    for option, value in options.items():
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (is_whole and value >= least):  # type: ignore[operator]
            raise UsageError(f"solver {name!r}: the option {option} is a whole number from {least}, not {value!r}")


def check_positive(name: str, **options: object) -> None:
    """Check that options of a solver are None or positive numbers.

    Raises
    ------
    UsageError
        Naming the solver and the option.
    """
    for option, value in options.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and value > 0):  # type: ignore[operator]
            raise UsageError(f"solver {name!r}: the option {option} is a positive number, not {value!r}")


def require_problem(solver: Solver, instances: Sequence[Instance]) -> None:
    """Check that a solver solves the problems of all instances.

    Raises
    ------
    UsageError
        Naming the first instance that it does not.
    """
    for instance in instances:
        if instance.problem not in solver.problems:
            solves = ", ".join(solver.problems)
            raise UsageError(
                f"instance {instance.name!r}: solver {solver.name!r} solves {solves}, not {instance.problem}"
            )


def require_matrix(solver: Solver, instances: Sequence[Instance]) -> None:
    """Check that a solver which works on a distance matrix can have one of each instance.

    Raises
    ------
    UsageError
        Naming the first instance that is too large for a dense matrix or has a negative distance.
    """
    for instance in instances:
        if instance.num_nodes > DENSE_LIMIT:
            raise UsageError(
                f"instance {instance.name!r}: {instance.num_nodes} nodes are too many for solver {solver.name!r}, "
                f"which works on a distance matrix; the limit is {DENSE_LIMIT}"
            )
        if instance.weights is not None and (instance.weights < 0).any():
            raise UsageError(f"instance {instance.name!r}: solver {solver.name!r} takes no negative weights")


def solve_in_turn(
    instances: Sequence[Instance], solve_one: Callable[[int, Instance], Solution], progress: Progress | None
) -> list[Solution]:
    """Solve instances one after the other; one that fails does not lose the others.

    Parameters
    ----------
    solve_one : callable
        From an instance and its number to its solution; raises SolverError or InfeasibleSolution, naming the
        instance, where it has none.

    Raises
    ------
    SolverError
        After the last instance, if some have no solution.
    """
    solutions: list[Solution | None] = []
    failures: list[NcoError] = []
    for number, instance in enumerate(instances):
        try:
            solutions.append(solve_one(number, instance))
        except (SolverError, InfeasibleSolution) as error:
            solutions.append(None)
            failures.append(error)
        if progress:
            progress(number + 1, len(instances))
    if failures:
        raise SolverError("; ".join(map(str, failures)), solutions) from failures[0]
    return [solution for solution in solutions if solution is not None]
