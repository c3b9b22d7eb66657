"""nco: neural combinatorial optimisation of vehicle routing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    __version__ = version("nco")
except PackageNotFoundError:  # imported from a source tree that was never installed
    __version__ = "0+unknown"

SHELVES = ("models", "data", "trainers", "eval", "scripts")


def shelf(name: str) -> Path:
    """Return the folder of a shelf: pretrained models, benchmark data, recipes, suites or scripts.

    A checkout keeps its shelves beside the package; an installed wheel carries them inside it.

    Parameters
    ----------
    name : {"models", "data", "trainers", "eval", "scripts"}

    Raises
    ------
    FileNotFoundError
        If neither place has the shelf.
    """
    if name not in SHELVES:
        raise ValueError(f"no shelf named {name!r}; there are {', '.join(SHELVES)}")
    package = Path(__file__).resolve().parent
    checkout = package.parent
    # Only a checkout has this file: site-packages may hold an unrelated folder called "data".
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    installed = package / "_shelves" / name
    if installed.is_dir():
        return installed
    raise FileNotFoundError(f"the shelf {name!r} is neither beside the package nor in {installed.parent}")
