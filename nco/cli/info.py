"""``nco info``: versions, devices, and which solvers work here."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from nco import __version__

if TYPE_CHECKING:
    from nco.instance import Instance

_PACKAGES = (
    "torch",
    "pytorch-lightning",
    "torch-geometric",
    "numpy",
    "scipy",
    "numba",
    "LKHpy",
    "elkai",
    "hygese",
    "hybgensea",
    "pyvrp",
    "fast-tsp",
    "ortools",
    "openai",
)


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "info",
        help="show versions, devices and the solvers found",
        description="Show versions and devices, and let each solver solve a tiny instance to see whether it works.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from nco.eval.records import to_json
    from nco.eval.tables import Table
    from nco.solvers import solver_names

    versions: dict[str, str | None] = {"nco": __version__, "python": platform.python_version()}
    versions |= {name: _version(name) for name in _PACKAGES}
    devices = _devices()
    solvers = {name: _try(name) for name in solver_names()}
    if args.json:
        found = {name: {"problems": problems, "failure": failure} for name, (problems, failure) in solvers.items()}
        print(to_json({"versions": versions, "devices": devices, "solvers": found}))
        return 0
    known = {name: number or "not installed" for name, number in versions.items()}
    Table(("package", "version"), list(known.items()), left=2).show()
    print()
    Table(("device", ""), list(devices.items()), left=2).show()
    print()
    table = Table(("solver", "problems", "state"), left=3)
    for name, (problems, failure) in solvers.items():
        table.rows.append((name, ", ".join(problems), failure or "works"))
    table.show()
    return 0


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> dict[str, str]:
    """Return the devices by torch's names for them."""
    import torch

    devices = {"cpu": f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()} threads"}
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        devices[f"cuda:{number}"] = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
    return devices


def _try(name: str) -> tuple[list[str], str | None]:
    """Return the problems of a solver, and why it cannot solve the smallest of them, if so."""
    from nco.instance import PROBLEMS
    from nco.solvers import make_solver, solver_table

    problems = list(getattr(solver_table()[name], "problems", PROBLEMS))
    try:
        solver = make_solver(name)
        for problem in problems:
            solver.solve([_tiny(problem)], seed=1, time_limit=1.0)
    except Exception as error:  # whatever it is, it is the answer
        return problems, f"{type(error).__name__}: {error}"
    return problems, None


def _tiny(problem: str) -> Instance:
    """Return eight nodes, on which every solver should have something to do."""
    import numpy as np

    from nco.instance import Instance

    coords = np.array([[2, 2], [0, 0], [4, 0], [4, 3], [0, 3], [2, 0], [1, 4], [3, 1]])
    if problem == "tsp":
        return Instance("tiny", "tsp", coords)
    return Instance("tiny", "cvrp", coords, demand=np.array([0, 1, 1, 1, 1, 1, 1, 1]), capacity=3)
