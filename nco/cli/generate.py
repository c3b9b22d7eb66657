"""``nco generate``: write seeded sets of random instances."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nco.data.sources import GeneratorSource


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "generate",
        help="write a seeded set of random instances",
        description="Write random instances into a set (.npz) or a folder of .tsp or .vrp files. Instance r has the "
        "seed [SEED, r], so that a larger count only adds instances.",
    )
    parser.add_argument(
        "--distribution", default="uniform", help="uniform (default), clustered, explosion, implosion, rotation, x"
    )
    add_generator_arguments(parser, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the distribution, such as clusters=3, or depot=E for the distribution x",
    )
    parser.add_argument("--out", type=Path, required=True, help="a set if it ends in .npz, else a folder")


def add_generator_arguments(parser: argparse._ActionsContainer, required: bool) -> None:
    """Add the arguments that ``nco generate`` and ``nco label --generate`` share."""
    parser.add_argument("--problem", choices=("tsp", "cvrp"), required=required)
    parser.add_argument("--size", type=int, required=required, help="nodes of a TSP, customers of a CVRP")
    parser.add_argument("--count", type=int, required=required, help="number of instances")
    parser.add_argument(
        "--capacity",
        type=int,
        nargs="+",
        help="of a CVRP; of several, each instance has one (default: the literature's for the size, if there is one)",
    )
    parser.add_argument(
        "--route-length", type=float, nargs="+", help="mean customers a route; it sets the capacity instead"
    )


def generator_source(args: argparse.Namespace, name: str, seed: int, options: dict[str, Any]) -> GeneratorSource:
    """Return the instances that the shared arguments ask for.

    Raises
    ------
    UsageError
        If the generator refuses them.
    """
    from nco.data.sources import GeneratorSource

    for option in ("capacity", "route_length"):
        values = getattr(args, option)
        if values is not None:
            options = {**options, option: values if len(values) > 1 else values[0]}
    return GeneratorSource(name, args.problem, args.size, seed, args.count, options)


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from nco.cli.options import parse_options
    from nco.data import Entry, write_folder, write_set
    from nco.errors import UsageError
    from nco.progress import track

    source = generator_source(args, args.distribution, args.seed, parse_options(args.option))
    is_set = args.out.suffix == ".npz"
    if is_set and source.instances(0, 1)[0].metric != "EXACT":
        raise UsageError(f"a set holds unrounded distances and {args.distribution!r} has rounded ones: give a folder")
    instances = []
    with track(source.count, "generate") as progress:
        for number in range(source.count):
            instances += source.instances(number, number + 1)
            progress(number + 1, source.count)
    if is_set:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_set(instances, args.out)
    else:
        write_folder([Entry(instance) for instance in instances], args.out)
    print(f"{args.out}: {len(instances)} instances")
    return 0
