"""``nco convert``: data files into sets or files of the benchmark libraries; checkpoints into released weights."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nco.errors import UsageError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "convert",
        help="convert data files and checkpoints",
        description="Convert a data file or folder (.tsp .vrp .npz, LEHD .txt, Kool .pkl, GFACS .pt) into a set (.npz) "
        "or into a folder of .tsp and .vrp files. References and tours are kept. With --weights, convert a checkpoint "
        "of nco train (.ckpt), or a published one of L2C-Insert, LEHD, GFACS, AGFN or HBG (.pt, .safetensors), into a "
        "folder of weights.",
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="data file or folder of data files, or a checkpoint")
    parser.add_argument(
        "target", metavar="DEST", type=Path, help="a set if it ends in .npz, else a folder; with --weights a folder"
    )
    parser.add_argument("--weights", action="store_true", help="SRC is a checkpoint")
    parser.add_argument(
        "--rounding",
        choices=("nint", "ceil", "none"),
        help="rounding of Euclidean distances of .tsp and .vrp files (default: as the file says); a set needs none",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    if not args.weights:
        return convert_data(args.source, args.target, args.rounding)
    if args.rounding is not None:
        raise UsageError("--rounding belongs to data, not to --weights")
    return convert_weights(args.source, args.target)


def convert_weights(source: Path, target: Path) -> int:
    """Turn a checkpoint into a folder of weights, and say what came of it.

    Raises
    ------
    CheckpointError
        If the checkpoint is damaged or of no known network.
    """
    from nco.models import heat_pretrained
    from nco.models.l2c_insert.pretrained import MODEL as L2C_INSERT
    from nco.models.l2c_insert.pretrained import load_insertion
    from nco.models.lehd.pretrained import MODEL as LEHD
    from nco.models.lehd.pretrained import TELLING_NAMES, load_lehd
    from nco.models.weights import tensor_names

    names = tensor_names(source)
    trained: Any
    if names & heat_pretrained.TELLING_NAMES:
        trained = heat_pretrained.load_heat(source)
        model = trained.model
    elif names & TELLING_NAMES:
        trained, model = load_lehd(source), LEHD
    else:
        trained, model = load_insertion(source), L2C_INSERT
    trained.save(target)
    parameters = sum(parameter.numel() for parameter in trained.network.parameters())
    print(f"{target}: {model} for the {trained.network.problem.upper()}, {parameters:,} parameters")
    return 0


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
