"""Recipes: one YAML file per model, problem and size, on the shelf ``trainers/``."""

from __future__ import annotations

from pathlib import Path

import nco
from nco.errors import UsageError


def find_recipe(name: str) -> Path:
    """Return a recipe by its path, or by its name on the shelf.

    Raises
    ------
    UsageError
        If there is neither; the message lists the shelf.
    """
    shelf = nco.shelf("trainers")
    for path in (Path(name), shelf / f"{name}.yaml"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in shelf.glob("*.yaml"))) or "none"
    raise UsageError(f"no recipe {name!r}: neither a file nor one of {known}")
