"""Sets of same-size random instances in one .npz file, with reference costs and tours."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nco.data.keyword_file import is_whole
from nco.errors import InfeasibleInstance, InfeasibleSolution, InstanceFormatError, UsageError
from nco.instance import Instance
from nco.solution import Routes, check_routes, giant_tour, routes_cost, split_giant_tour


class Entry(NamedTuple):
    """An instance of a data file and the routes that the file has for it, if any."""

    instance: Instance
    routes: Routes | None = None


def read_set(path: str | Path, kind: str = "best-known") -> list[Instance]:
    """Read the instances of a set, with their reference costs.

    Parameters
    ----------
    path : path-like
        An .npz file with the keys of :func:`write_set`, of which ``coords`` (and for a CVRP ``demand`` and
        ``capacity``) must be there.
    kind : str
        Kind of the references of a file that does not state it.

    Returns
    -------
    list of Instance
        With the metric EXACT. They are called after the file and their row where the file has no names.

    Raises
    ------
    InstanceFormatError
        If the file is broken, naming the row that is.
    """
    return [entry.instance for entry in read_set_entries(path, kind)]


def read_set_tours(path: str | Path) -> list[Routes | None]:
    """Read the tours of a set as routes; None where an instance has none.

    Raises
    ------
    InstanceFormatError
        If the file is broken, or a tour is no solution of its instance.
    """
    return [entry.routes for entry in read_set_entries(path)]


def read_set_entries(path: str | Path, kind: str = "best-known") -> list[Entry]:
    """Read the instances and the tours of a set together; see :func:`read_set` and :func:`read_set_tours`."""
    path = Path(path)
    arrays = _load(path)
    coords = arrays["coords"]
    rows = len(coords)
    names = arrays.get("name", row_names(path, rows))
    kinds = np.broadcast_to(arrays.get("kind", np.array(kind)), rows)
    capacity = np.broadcast_to(arrays["capacity"], rows) if "capacity" in arrays else None
    entries = []
    for row in range(rows):
        try:
            instance = Instance(
                name=str(names[row]),
                problem="tsp" if capacity is None else "cvrp",
                coords=coords[row],
                demand=None if capacity is None else arrays["demand"][row],
                capacity=None if capacity is None else int(capacity[row]),
            )
            routes = None
            if "tour" in arrays and not (arrays["tour"][row] == -1).all():
                routes = split_giant_tour(instance.problem, arrays["tour"][row])
                check_routes(instance, routes)
        except (InfeasibleInstance, InfeasibleSolution) as error:
            raise InstanceFormatError(f"row {row}: {error}", path) from error
        if "cost" in arrays and not np.isnan(arrays["cost"][row]):
            instance = instance.with_reference(arrays["cost"][row], str(kinds[row]))
        entries.append(Entry(instance, routes))
    return entries


def row_names(path: Path, rows: int) -> list[str]:
    """Name the instances of a file after it and their rows, so that the names sort as the rows do."""
    width = len(str(rows - 1))
    return [f"{path.stem}-{row:0{width}d}" for row in range(rows)]


def _load(path: Path) -> dict[str, NDArray]:
    """Load the arrays of a set and check their shapes and kinds against one another."""
    try:
        with path.open("rb") as stream:
            # numpy would take any other file for a pickle and advise to load it as one.
            if not zipfile.is_zipfile(stream):
                raise InstanceFormatError("this is not an .npz file", path)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
    except InstanceFormatError:
        raise
    except Exception as error:  # a broken archive may raise nearly anything
        raise InstanceFormatError(f"cannot be read as .npz: {' '.join(str(error).split())}", path) from error
    if "coords" not in arrays:
        raise InstanceFormatError(f"has no coords, only {', '.join(arrays) or 'nothing'}", path)
    if ("demand" in arrays) != ("capacity" in arrays):
        raise InstanceFormatError("demand and capacity come together, and one is missing", path)
    shape = arrays["coords"].shape
    if len(shape) != 3 or shape[2] != 2 or not shape[0]:
        raise InstanceFormatError(f"coords must have the shape [B, N, 2] with B > 0, not {list(shape)}", path)
    rows, nodes = shape[:2]
    # The shapes that each key may have, and the letters of numpy's kinds of dtype that it may have.
    expected: dict[str, tuple[list[tuple[int, ...]], str]] = {
        "coords": ([shape], "fiu"),
        "demand": ([(rows, nodes)], "fiu"),
        "capacity": ([(), (rows,)], "fiu"),
        "cost": ([(rows,)], "fiu"),
        "tour": ([(rows, *arrays["tour"].shape[1:2])] if "tour" in arrays else [], "iu"),
        "name": ([(rows,)], "U"),
        "kind": ([(), (rows,)], "U"),
    }
    for key, array in arrays.items():
        shapes, kinds = expected.get(key, ([array.shape], array.dtype.kind))
        if array.shape not in shapes or array.dtype.kind not in kinds:
            what = f"{key} of the shape {list(array.shape)} and type {array.dtype}"
            raise InstanceFormatError(f"{what} does not fit {rows} instances of {nodes} nodes", path)
    for key in ("demand", "capacity"):
        if key in arrays and not is_whole(arrays[key]).all():
            raise InstanceFormatError(f"{key} must hold whole numbers", path)
    return arrays


def write_set(instances: Sequence[Instance], path: str | Path, routes: Sequence[Routes | None] | None = None) -> None:
    """Write instances of one problem and size as a set; a crash leaves either the former file or the whole new one.

    The keys are ``coords`` float64 [B, N, 2], ``demand`` int64 [B, N] and ``capacity`` int64 [B] (CVRP only), ``name``
    and, where there are references or routes, ``cost`` float64 [B] (NaN: none), ``kind`` (of the reference) and
    ``tour`` int32 [B, L]: giant tours padded with 0, and rows of -1 for none.

    Parameters
    ----------
    instances : sequence of Instance
        With the metric EXACT.
    path : path-like
    routes : sequence of routes or None, optional
        One per instance. The cost of an instance without a reference is the length of its routes.

    Raises
    ------
    InfeasibleSolution
        If routes are no solution of their instance.
    UsageError
        If there are no instances, or problems, sizes or metrics differ.
    """
    if not instances:
        raise UsageError("a set needs at least one instance")
    kinds = {(instance.problem, instance.num_nodes, instance.metric) for instance in instances}
    if len(kinds) > 1:
        raise UsageError(f"a set holds one problem, size and metric, not {sorted(kinds)}")
    if instances[0].metric != "EXACT":
        raise UsageError(f"a set holds unrounded distances (rounding none), not the metric {instances[0].metric}")
    arrays = {"coords": np.stack([instance.coords for instance in instances])}  # type: ignore[misc]
    arrays["name"] = np.array([instance.name for instance in instances])
    if instances[0].problem == "cvrp":
        arrays["demand"] = np.stack([instance.demand for instance in instances])  # type: ignore[misc]
        arrays["capacity"] = np.array([instance.capacity for instance in instances], dtype=np.int64)
    if routes is None:
        routes = [None] * len(instances)
    arrays |= _references(instances, routes)
    _save(arrays, Path(path))


def _references(instances: Sequence[Instance], routes: Sequence[Routes | None]) -> dict[str, NDArray]:
    """Return the arrays cost, kind and tour, as far as there is anything to put into them."""
    arrays: dict[str, NDArray] = {}
    costs, kinds, tours = [], [], []
    for instance, known in zip(instances, routes, strict=True):
        if known is not None:
            check_routes(instance, known)
        reference = instance.reference
        if reference is not None:
            costs.append(reference.cost)
        else:
            costs.append(float("nan") if known is None else routes_cost(instance, known))
        kinds.append("best-known" if reference is None else reference.kind)
        tours.append(np.empty(0, np.int64) if known is None else giant_tour(instance.problem, known))
    if not np.isnan(costs).all():
        arrays["cost"] = np.array(costs)
        arrays["kind"] = np.array(kinds)
    length = max(map(len, tours))
    if length:
        arrays["tour"] = np.full((len(tours), length), -1, dtype=np.int32)
        for row, tour in enumerate(tours):
            if len(tour):
                arrays["tour"][row] = 0
                arrays["tour"][row, : len(tour)] = tour
    return arrays


def _save(arrays: dict[str, NDArray], path: Path) -> None:
    """Write an .npz file under a temporary name beside its place, then move it there."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
