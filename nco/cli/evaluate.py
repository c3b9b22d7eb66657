"""``nco evaluate``: compare solvers on a suite or a data set, resuming what a kill has left."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nco.eval.evaluator import Comparison
    from nco.eval.suite import SolverEntry, Suite

# More rows than this are a list to look things up in, not one to print.
_PRINTED_ROWS = 60


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "evaluate",
        help="compare solvers on a suite or a data set",
        description="Solve all instances with all solvers, record each result as soon as it is known, and print means "
        "with confidence intervals. The same command given again does what is left after a kill.",
    )
    parser.add_argument("suite", nargs="?", type=Path, metavar="SUITE.yaml", help="see nco.eval.suite.read_suite")
    adhoc = parser.add_argument_group("instead of a suite")
    adhoc.add_argument("--data", type=Path, metavar="PATH", help="a data file, a folder of them, or a set (.npz)")
    adhoc.add_argument("--solver", action="append", default=[], metavar="NAME", help="may be given several times")
    adhoc.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the solver; of several solvers, SOLVER.KEY=VALUE says which",
    )
    adhoc.add_argument("--time-limit", type=float, metavar="SECONDS", help="for each instance")
    adhoc.add_argument("--seed", type=int, help="default: 1")
    adhoc.add_argument("--reference", metavar="SOLVER", help="measure gaps to its costs (default: to the file's)")
    parser.add_argument("--limit", type=int, metavar="K", help="only the first K instances")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the records (default: one under runs/)")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write a page with tables and pictures")
    parser.add_argument("--retry-failures", action="store_true", help="try again what has failed before")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of tables")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code; failures are results and no fault."""
    from nco.errors import UsageError
    from nco.eval.evaluator import evaluate
    from nco.eval.page import write_page
    from nco.eval.records import to_json
    from nco.eval.report import write_markdown
    from nco.progress import track

    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {args.limit}")
    suite = _suite(args)
    folder = args.out or _default_folder(args, suite)
    with track(1, "evaluate") as progress:
        comparison = evaluate(
            suite,
            folder,
            limit=args.limit,
            retry_failures=args.retry_failures,
            progress=progress,
            on_record=(lambda record: print(to_json(record), flush=True)) if args.json else None,
        )
    write_markdown(comparison, folder / "report.md")
    if args.report is not None:
        write_page(comparison, args.report)
    if not args.json:
        _show(comparison)
    failures = sum(record["failure"] is not None for record in comparison.records)
    if failures:
        print(f"{failures} of {len(comparison.records)} results are failures, see {folder}", file=sys.stderr)
    return 0


def _suite(args: argparse.Namespace) -> Suite:
    """Return the suite that the arguments name or describe."""
    from nco.errors import UsageError
    from nco.eval.suite import FILE_REFERENCE, DataFiles, Suite, read_suite

    if (args.suite is None) == (args.data is None):
        raise UsageError("give either a suite or --data")
    if args.suite is not None:
        for argument in ("solver", "option", "time_limit", "seed", "reference"):
            if getattr(args, argument) not in (None, []):
                raise UsageError(f"--{argument.replace('_', '-')} belongs to --data; a suite states its own")
        return read_suite(args.suite)
    if not args.solver:
        raise UsageError("--data needs at least one --solver")
    if args.time_limit is not None and not args.time_limit > 0:
        raise UsageError(f"--time-limit must be above 0, not {args.time_limit:g}")
    return Suite(
        name=args.data.stem,
        instances=(DataFiles(args.data),),
        solvers=_solvers(args),
        seed=1 if args.seed is None else args.seed,
        reference=args.reference or FILE_REFERENCE,
    )


def _solvers(args: argparse.Namespace) -> tuple[SolverEntry, ...]:
    """Return the solvers of the command line with their options; one without a solver's name belongs to all."""
    from nco.cli.options import parse_options
    from nco.errors import UsageError
    from nco.eval.suite import SolverEntry

    options: dict[str, dict[str, Any]] = {name: {} for name in args.solver}
    for key, value in parse_options(args.option).items():
        name, dot, option = key.rpartition(".")
        if dot and name not in options:
            raise UsageError(f"--option {key}: there is no --solver {name}")
        for named in [name] if dot else options:
            options[named][option] = value
    return tuple(SolverEntry(name, name, options[name], args.time_limit) for name in args.solver)


def _default_folder(args: argparse.Namespace, suite: Suite) -> Path:
    """Return a folder for the records: that of the suite, or one that no other command line has."""
    name = suite.name
    if args.data is not None:
        asked = json.dumps([str(args.data.resolve()), suite.describe()])
        name = f"{name}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"
    return Path("runs") / (name if args.limit is None else f"{name}-first-{args.limit}")


def _show(comparison: Comparison) -> None:
    from nco.eval.report import result_tables, summary_table

    for table in result_tables(comparison.records):
        if len(table.rows) <= _PRINTED_ROWS:
            table.show()
            print()
    summary_table(comparison.records).show()
