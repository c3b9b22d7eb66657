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
    from nco.eval.records import to_json
    from nco.eval.tables import Table
    from nco.models.weights import released_models

    models = [describe(folder) for folder in released_models()]
    if args.json:
        for model in models:
            print(to_json(model))
        return 0
    table = Table(("name", "model", "problem", "about", "parameters"), left=4)
    for model in models:
        table.rows.append((*(model[key] for key in table.columns[:4]), f"{model['parameters']:,}"))
    table.show()
    return 0


def describe(folder: Path) -> dict[str, Any]:
    """Return name, model, problem, number of parameters and the first line of the card of released weights.

    Raises
    ------
    CheckpointError
        If the configuration or the weights are broken.
    """
    from safetensors import SafetensorError, safe_open

    from nco.errors import CheckpointError
    from nco.models.weights import CARD, WEIGHTS, read_config

    config = read_config(folder)
    try:
        # Shapes stand in the head of the file; the tensors themselves are not read.
        with safe_open(folder / WEIGHTS, framework="numpy") as weights:
            parameters = sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder / WEIGHTS}: {error}") from error
    card = folder / CARD
    lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
    return {
        "name": folder.name,
        "model": str(config["model"]),
        "problem": str(config["problem"]),
        "about": next((line.strip("# ") for line in lines if line.strip("# ")), "no card"),
        "parameters": parameters,
    }
