"""Instances from any data file or folder, with the references that lie beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from nco.data import peers
from nco.data.keyword_file import read_lines
from nco.data.sets import Entry, read_set_entries
from nco.data.tours import read_routes, write_routes
from nco.data.tsplib import read_instance, with_rounding, write_instance
from nco.errors import InstanceFormatError, UsageError
from nco.instance import Instance
from nco.solution import Solution, routes_cost

BEST_KNOWN = "best_known.json"


def read_any(path: str | Path, rounding: str | None = None) -> list[Instance]:
    """Read all instances of a data file, or of a folder of them.

    Parameters
    ----------
    path : path-like
        A TSPLIB (.tsp) or CVRPLIB (.vrp) file, a set (.npz), a peer's file (.txt, .pkl, .pt; see
        :mod:`nco.data.peers`), or a folder, whose data files are read in the order of their names.
    rounding : {"nint", "ceil", "none"}, optional
        For instances of TSPLIB and CVRPLIB, see :func:`nco.data.read_instance`. Random instances are never rounded.

    Returns
    -------
    list of Instance
        A .tsp or .vrp file gets its reference from its entry in a ``best_known.json`` beside it (name ->
        ``{"best_known": cost, "optimal": bool}``, or a ``kind`` in place of ``optimal``), unless another rounding was
        asked for, else from the ``.opt.tour`` or ``.sol`` file of the same name.

    Raises
    ------
    InstanceFormatError
        If there is nothing to read, or a file is broken.
    """
    return [entry.instance for entry in read_entries(path, rounding)]


def read_entries(path: str | Path, rounding: str | None = None) -> list[Entry]:
    """Read all instances of a data file or folder as :func:`read_any` does, with the routes that are known for them.

    Those of a .tsp file are in the .opt.tour or .tour file of the same name, those of a .vrp file in the .sol file.
    """
    path = Path(path)
    if not path.exists():
        raise InstanceFormatError("there is no such file or folder", path)
    if not path.is_dir():
        return _reader(path)(path, rounding)
    files = [file for file in sorted(path.iterdir()) if _is_data(file)]
    if not files:
        raise InstanceFormatError(f"the folder has no data file ({', '.join(_READERS)})", path)
    return [entry for file in files for entry in _reader(file)(file, rounding)]


def _read_library(path: Path, rounding: str | None) -> list[Entry]:
    """Read a .tsp or .vrp file with the reference and the routes that lie beside it."""
    own = read_instance(path)
    reference = _best_known(path)
    if reference is not None:
        own = own.with_reference(*reference)
    instance = with_rounding(own, rounding)
    suffixes = (".opt.tour", ".tour") if instance.problem == "tsp" else (".sol",)
    suffix = next((suffix for suffix in suffixes if path.with_suffix(suffix).is_file()), None)
    if suffix is None:
        return [Entry(instance)]
    routes = read_routes(path.with_suffix(suffix), instance)
    # A mere .tour may come from any solver; an optimal one is so for its file's rounding, and a bound for any other.
    if instance.reference is None and suffix != ".tour":
        kind = "optimal" if suffix == ".opt.tour" and instance.metric == own.metric else "best-known"
        instance = instance.with_reference(routes_cost(instance, routes), kind)
    return [Entry(instance, routes)]


def _best_known(path: Path) -> tuple[float, str] | None:
    """Return the cost and the kind that the best_known.json beside a file states for it, if it does."""
    table = path.with_name(BEST_KNOWN)
    if not table.is_file():
        return None
    entry = read_best_known(table).get(path.stem)
    if entry is None:
        return None
    try:
        return float(entry["best_known"]), str(entry.get("kind", "optimal" if entry.get("optimal") else "best-known"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InstanceFormatError(f"the entry {path.stem!r} needs a number best_known", table) from error


def read_best_known(table: Path) -> dict:
    """Read a best_known.json; see :func:`read_any`.

    Raises
    ------
    InstanceFormatError
        If it is no JSON object, with the line where the JSON breaks.
    """
    try:
        entries = json.loads(table.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InstanceFormatError(f"is not JSON: {error.msg}", table, error.lineno) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InstanceFormatError(f"cannot be read: {error}", table) from error
    if not isinstance(entries, dict):
        raise InstanceFormatError("must hold an object of entries by name", table, 1)
    return entries


def write_folder(entries: Sequence[Entry], folder: Path) -> None:
    """Write instances as .tsp and .vrp files that :func:`read_any` reads again, with all that is known about them.

    Routes go into .sol files and into .opt.tour files where they are optimal, else .tour; references into
    ``best_known.json``, whose entries for other instances are kept.

    Raises
    ------
    UsageError
        If two instances have the same name, or a name is no file name.
    InfeasibleSolution
        If routes are no solution of their instance.
    """
    names = [entry.instance.name for entry in entries]
    for name, count in Counter(names).items():
        if count > 1 or not name or name.startswith(".") or name != Path(name).name:
            reason = f"{count} instances have this name" if count > 1 else "it is no file name"
            raise UsageError(f"instance {name!r} cannot be written into a folder: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / BEST_KNOWN
    known = read_best_known(table) if table.is_file() else {}
    for instance, routes in entries:
        is_tsp = instance.problem == "tsp"
        write_instance(instance, folder / f"{instance.name}{'.tsp' if is_tsp else '.vrp'}")
        kind = None
        if instance.reference is not None:
            kind = instance.reference.kind
            known[instance.name] = {"best_known": instance.reference.cost, "kind": kind}
        if routes is not None:
            suffix = ".sol" if not is_tsp else ".opt.tour" if kind == "optimal" else ".tour"
            write_routes(Solution.judged(instance, routes), instance, folder / f"{instance.name}{suffix}")
    if known:
        table.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _read_text(path: Path, rounding: str | None) -> list[Entry]:
    """Read a .txt file: a peer's, or one in TSPLIB's format under another name."""
    first = next(line.strip() for line in read_lines(path) if line.strip())
    if peers.is_text(first):
        return peers.read_text(path, rounding)
    return _read_library(path, rounding)


# Readers by suffix. Only the formats of the libraries know a rounding.
_READERS: dict[str, Callable[[Path, str | None], list[Entry]]] = {
    ".tsp": _read_library,
    ".vrp": _read_library,
    ".npz": lambda path, rounding: read_set_entries(path),
    ".txt": _read_text,
    ".pkl": lambda path, rounding: peers.read_pickle(path),
    ".pt": lambda path, rounding: peers.read_tensor(path),
}


def _reader(path: Path) -> Callable[[Path, str | None], list[Entry]]:
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        known = ", ".join(_READERS)
        raise InstanceFormatError(f"no data file: the suffix is {suffix or 'missing'}, known are {known}", path)
    return _READERS[suffix]


def _is_data(path: Path) -> bool:
    """Tell whether a file of a folder is a data file; a .txt may as well be a readme, so its first line decides."""
    if path.suffix.lower() not in _READERS or not path.is_file() or path.name.startswith("."):
        return False
    if path.suffix.lower() != ".txt":
        return True
    with path.open(encoding="utf-8", errors="replace") as file:
        return peers.is_text(file.readline().strip())
