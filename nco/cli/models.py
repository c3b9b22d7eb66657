"""``nco models``: list the pretrained models."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "models",
        help="list the pretrained models",
        description="List the weights on the shelf models/, with the first line of their cards.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of a table")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from nco import shelf
    from nco.eval.records import to_json
    from nco.eval.tables import Table

    folders = [weights.parent for weights in sorted(shelf("models").glob("*/weights.safetensors"))]
    models = [describe(folder) for folder in folders]
    if args.json:
        for model in models:
            print(to_json(model))
        return 0
    table = Table(("name", "problem", "about", "parameters"), left=3)
    for model in models:
        table.rows.append((model["name"], model["problem"], model["about"], f"{model['parameters']:,}"))
    table.show()
    return 0


def describe(folder: Path) -> dict[str, Any]:
    """Return name, problem, number of parameters and the first line of the card of a model.

    Only the head of the weights file is read.

    Raises
    ------
    CheckpointError
        If the configuration is missing or states no problem, or the weights are no safetensors file.
    """
    import yaml
    from safetensors import SafetensorError, safe_open

    from nco.errors import CheckpointError

    config = folder / "config.yaml"
    try:
        problem = yaml.safe_load(config.read_text(encoding="utf-8"))["problem"]
        with safe_open(folder / "weights.safetensors", framework="numpy") as weights:
            parameters = sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    except (OSError, yaml.YAMLError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"{folder}: is no model of nco: {type(error).__name__}: {error}") from error
    card = folder / "CARD.md"
    lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
    about = next((line.strip("# ") for line in lines if line.strip("# ")), "no card")
    return {"name": folder.name, "problem": str(problem), "about": about, "parameters": parameters}
