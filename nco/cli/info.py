"""``nco info``: versions, devices, and which solvers are available."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version

from nco import __version__

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
        description="Show versions and devices, and which solvers are available or what they lack.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from nco.eval.records import to_json
    from nco.eval.tables import Table
    from nco.solvers import solver_table
    from nco.solvers.base import availability

    versions: dict[str, str | None] = {"nco": __version__, "python": platform.python_version()}
    versions |= {name: _version(name) for name in _PACKAGES}
    devices = _devices()
    problems = {name: list(getattr(solver, "problems", ())) for name, solver in solver_table().items()}
    found = {name: availability(name) for name in problems}
    if args.json:
        solvers = {
            name: {"available": works, "problems": problems[name], "state": state}
            for name, (works, state) in found.items()
        }
        print(to_json({"versions": versions, "devices": devices, "solvers": solvers}))
        return 0
    known = {name: number or "not installed" for name, number in versions.items()}
    Table(("package", "version"), list(known.items()), left=2).show()
    print()
    Table(("device", ""), list(devices.items()), left=2).show()
    print()
    table = Table(("solver", "problems", "available", "with"), left=4)
    for name, (works, state) in found.items():
        table.rows.append((name, ", ".join(problems[name]), "yes" if works else "no", state))
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
