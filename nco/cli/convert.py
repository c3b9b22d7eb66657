"""``nco convert``: turn any readable data file into a set or into files of the benchmark libraries."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "convert",
        help="convert data files",
        description="Convert a data file or folder (.tsp .vrp .npz, LEHD .txt, Kool .pkl, GFACS .pt) into a set (.npz) "
        "or into a folder of .tsp and .vrp files. References and tours are kept.",
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="data file or folder of data files")
    parser.add_argument("target", metavar="DEST", type=Path, help="a set if it ends in .npz, else a folder")
    parser.add_argument(
        "--rounding",
        choices=("nint", "ceil", "none"),
        help="rounding of Euclidean distances of .tsp and .vrp files (default: as the file says); a set needs none",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    return convert_data(args.source, args.target, args.rounding)


def convert_data(source: Path, target: Path, rounding: str | None) -> int:
    """Convert a data file or folder, and say what came of it.

    Raises
    ------
    NcoError
        If the source is broken, or the target's format cannot hold its instances.
    """
    from nco.data import read_entries, write_folder, write_set

    entries = read_entries(source, rounding)
    if target.suffix == ".npz":
        target.parent.mkdir(parents=True, exist_ok=True)
        write_set([entry.instance for entry in entries], target, [entry.routes for entry in entries])
    else:
        write_folder(entries, target)
    referenced = sum(entry.instance.reference is not None for entry in entries)
    print(f"{target}: {len(entries)} instances, {referenced} with a reference")
    return 0
