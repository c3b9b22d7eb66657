"""``nco label``: label instances with a solver, in worker processes, resuming what a kill has left."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nco.cli.generate import add_generator_arguments, generator_source
from nco.cli.options import parse_options

if TYPE_CHECKING:
    from nco.data.sources import Source

_GENERATOR_ARGUMENTS = ("problem", "size", "count", "generator_seed")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "label",
        help="label instances with a solver, for training",
        description="Solve the instances of a set, or of a generator, and write their tours in shards. The same "
        "command given again does what is left after a kill.",
    )
    parser.add_argument("set", nargs="?", type=Path, metavar="SET.npz", help="the instances")
    generated = parser.add_argument_group("instances of a generator instead of a set")
    generated.add_argument("--generate", metavar="DISTRIBUTION", help="as nco generate --distribution")
    add_generator_arguments(generated, required=False)
    generated.add_argument("--generator-seed", type=int)
    generated.add_argument("--generator-option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--solver", required=True, help="lkh, hgs or any other")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the solver")
    parser.add_argument("--seed", type=int, default=1, help="the solver's, for each instance (default: 1)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="for each instance")
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each (default: 1)")
    parser.add_argument("--shard-size", type=int, default=200, help="instances a file (default: 200)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the shards")
    parser.add_argument("--join", type=Path, metavar="SET.npz", help="at the end, write them as one set too")


def _source(args: argparse.Namespace) -> Source:
    """Return the instances to label; UsageError if the arguments name none or two of them."""
    from nco.data.sources import SetSource
    from nco.errors import UsageError

    if (args.set is None) == (args.generate is None):
        raise UsageError("give either a set of instances or --generate")
    if args.set is not None:
        for argument in (*_GENERATOR_ARGUMENTS, "capacity", "route_length", "generator_option"):
            if getattr(args, argument) not in (None, []):
                raise UsageError(f"--{argument.replace('_', '-')} belongs to --generate, not to a set")
        return SetSource(args.set)
    for argument in _GENERATOR_ARGUMENTS:
        if getattr(args, argument) is None:
            raise UsageError(f"--generate needs --{argument.replace('_', '-')}")
    return generator_source(args, args.generate, args.generator_seed, parse_options(args.generator_option))


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code, 1 if instances could not be solved."""
    from nco.data.label_shards import join_shards
    from nco.labelling import LabellingError, label
    from nco.progress import track

    source = _source(args)
    try:
        with track(source.count, "label") as progress:
            label(
                source,
                args.solver,
                parse_options(args.option),
                args.out,
                seed=args.seed,
                shard_size=args.shard_size,
                time_limit=args.time_limit,
                workers=args.workers,
                progress=progress,
            )
    except LabellingError as error:
        for number, reason in error.failures.items():
            print(f"instance {number}: {reason}", file=sys.stderr)
        print(f"{len(error.failures)} of {source.count} instances have no label", file=sys.stderr)
        return 1
    if args.join is not None:
        join_shards(args.out, args.join)
    print(f"{args.out}: {source.count} labels by {args.solver}")
    return 0
