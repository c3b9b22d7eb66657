"""``nco solve``: solve the instances of files and say what came of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nco.instance import Instance
    from nco.progress import Progress
    from nco.solution import Solution
    from nco.solvers import Solver

# The best of the released neural solvers, for either problem.
DEFAULT_SOLVER = "l2c-insert"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "solve",
        help="solve instances of a file",
        description="Solve TSPs and CVRPs and print cost, gap to the known reference and time.",
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a .tsp or .vrp file, a set (.npz), or a folder of these"
    )
    parser.add_argument("--solver", default=DEFAULT_SOLVER, help=f"see nco info (default: {DEFAULT_SOLVER})")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the solver")
    parser.add_argument("--iterations", type=int, metavar="I", help="short for --option iterations=I")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="for each instance")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument(
        "--rounding",
        choices=("nint", "ceil", "none"),
        help="of Euclidean distances in .tsp and .vrp files (default: as the file says)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the solutions there, as .tour and .sol files")
    parser.add_argument("--plot", action="store_true", help="draw them there too, as .png files")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of a table")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code, 1 if the solver has failed on some instances."""
    from nco.data import read_any
    from nco.errors import UsageError
    from nco.eval.records import solution_record, to_json
    from nco.progress import part, track
    from nco.solvers import make_solver

    if args.time_limit is not None and not args.time_limit > 0:
        raise UsageError(f"--time-limit must be above 0, not {args.time_limit:g}")
    if args.plot and args.out is None:
        raise UsageError("--plot needs --out DIR for its pictures")
    solver = make_solver(args.solver, _options(args))
    sets = [read_any(path, args.rounding) for path in args.files]
    instances = [instance for one in sets for instance in one]
    _check(instances, solver, unique=args.out is not None)
    solved: list[tuple[Instance, Solution]] = []
    failures: list[str] = []
    with track(len(instances), "solve") as progress:
        done = 0
        for one in sets:
            inner = part(progress, done, len(one), len(instances))
            solutions, failure = _solve(solver, one, args.seed, args.time_limit, inner)
            for instance, solution in zip(one, solutions, strict=True):
                if solution is not None:
                    solved.append((instance, solution))
                    if args.out is not None:
                        _write(instance, solution, args.out, args.plot)
                    if args.json:
                        print(to_json(solution_record(instance, solution)), flush=True)
            failures += [failure] if failure else []
            done += len(one)
    if not args.json:
        _show(solved)
    for failure in failures:
        print("nco: failed:", failure, file=sys.stderr)
    return 1 if failures else 0


def _solve(
    solver: Solver, instances: Sequence[Instance], seed: int, time_limit: float | None, progress: Progress
) -> tuple[Sequence[Solution | None], str]:
    """Solve the instances of a file together, so that a neural solver can batch them; say what has failed."""
    from nco.solvers.base import SolverError

    try:
        return solver.solve(instances, seed=seed, time_limit=time_limit, progress=progress), ""
    except SolverError as failure:
        return failure.solutions or [None] * len(instances), str(failure)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the solver's options; UsageError if the iterations are given twice."""
    from nco.cli.options import parse_options
    from nco.errors import UsageError

    options = parse_options(args.option)
    if args.iterations is None:
        return options
    if "iterations" in options:
        raise UsageError("the iterations are given twice, as --iterations and as --option")
    return {**options, "iterations": args.iterations}


def _check(instances: Sequence[Instance], solver: Solver, unique: bool) -> None:
    """Refuse, before anything is solved, what the solver cannot solve and names that would share a file."""
    from nco.errors import UsageError

    names: set[str] = set()
    for instance in instances:
        if instance.problem not in solver.problems:
            raise UsageError(f"solver {solver.name!r} does not solve {instance.name!r}, a {instance.problem.upper()}")
        if unique and (instance.name in names or not instance.name or instance.name != Path(instance.name).name):
            reason = "two instances have this name" if instance.name in names else "it is no file name"
            raise UsageError(f"instance {instance.name!r} cannot be written into a folder: {reason}")
        names.add(instance.name)


def _write(instance: Instance, solution: Solution, folder: Path, plot: bool) -> None:
    """Write the solution, and its picture where asked for."""
    from nco.data import write_routes

    folder.mkdir(parents=True, exist_ok=True)
    suffix = ".tour" if instance.problem == "tsp" else ".sol"
    write_routes(solution, instance, folder / f"{instance.name}{suffix}")
    if plot:
        from nco.eval.plots import to_png, tour_figure
        from nco.eval.tables import format_cost

        title = f"{instance.name}, {solution.solver}: {format_cost(solution.cost)}"
        picture = to_png(tour_figure(instance, {title: solution.routes}))
        (folder / f"{instance.name}.png").write_bytes(picture)


def _show(solved: Sequence[tuple[Instance, Solution]]) -> None:
    """Print the table of all solutions."""
    from nco.eval.tables import Table, format_cost, format_gap, format_seconds

    columns = ("instance", "problem", "solver", "nodes", "cost", "reference", "gap", "time")
    table = Table(columns, left=3)
    for instance, solution in solved:
        known = instance.reference
        table.rows.append(
            (
                instance.name,
                instance.problem,
                solution.solver,
                str(instance.num_nodes),
                format_cost(solution.cost),
                "-" if known is None else f"{format_cost(known.cost)} ({known.kind})",
                format_gap(solution.gap(instance)),
                format_seconds(solution.seconds),
            )
        )
    table.show()
