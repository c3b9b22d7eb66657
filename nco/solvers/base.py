"""The Solver protocol and the registry from names and options to solvers."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from nco.errors import UsageError
from nco.instance import Instance
from nco.solution import Solution

# Called with (instances done, instances in all), or iterations where all instances advance together.
Progress = Callable[[int, int], None]


@runtime_checkable
class Solver(Protocol):
    """What the command line, the labeller and the evaluator see of any solver.

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
    _load_all()
    if name not in _REGISTRY:
        raise UsageError(f"no solver named {name!r}; there are {', '.join(sorted(_REGISTRY))}")
    known = [parameter for parameter in inspect.signature(_REGISTRY[name]).parameters if parameter != "self"]
    for option in options or {}:
        if option not in known:
            raise UsageError(f"solver {name!r} has no option {option!r}; it has {', '.join(known) or 'none'}")
    return _REGISTRY[name](**(options or {}))
