"""Readers of the private data formats of other neural solvers.

- Text of LEHD (Luo et al. 2023), also used by its successors: one TSP or CVRP per line with its solution, or one
  TSPLIB or CVRPLIB instance per line as a list.
- Pickles of Kool et al. (2019): a list of TSPs or CVRPs.
- Tensors of GFACS (Kim et al. 2025): one float tensor of TSPs.

All their nodes are numbered from 1 when read, a CVRP's depot first.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nco.data.keyword_file import is_whole, parse_number, read_lines
from nco.data.sets import Entry, row_names
from nco.data.tsplib import ROUNDINGS, with_rounding
from nco.errors import InstanceFormatError, NcoError
from nco.instance import Instance
from nco.solution import Solution


def read_text(path: str | Path, rounding: str | None = None) -> list[Entry]:
    """Read a text file of LEHD, whose every line is one instance in one of four forms.

    - TSP: ``x1 y1 x2 y2 ... output t1 t2 ... t1``, the tour counted from 1.
    - CVRP: ``depot,x,y,customer,x1,y1,...,capacity,C,demand,[0,]d1,...,cost,c,node_flag,`` then the customers of all
      routes in order, counted from 1, and as many flags, 1 where a customer is reached from the depot.
    - TSPLIB: ``['name', 'optimum', 'x1', 'y1', ...]``.
    - CVRPLIB: ``['name', NAME, 'depot', x, y, 'customer', ..., 'demand', 0, d1, ..., 'capacity', C, 'cost', c,
      'end']``.

    Parameters
    ----------
    path : path-like
    rounding : {"nint", "ceil", "none"}, optional
        Of the instances of TSPLIB and CVRPLIB, by default "nint" as these libraries have it. The stored optimum
        belongs to that and is dropped with any other. Random instances are never rounded.

    Returns
    -------
    list of Entry
        The reference of a random instance is the length of its stored solution.

    Raises
    ------
    InstanceFormatError
        At the first line that is broken, or whose solution is none.
    """
    path = Path(path)
    lines = [(number, line.strip()) for number, line in enumerate(read_lines(path), 1) if line.strip()]
    entries: list[Entry] = []
    for name, (number, line) in zip(row_names(path, len(lines)), lines, strict=True):
        try:
            entries.append(_parse_line(line, name, rounding))
        except NcoError as error:
            raise InstanceFormatError(str(error), path, number) from error
    return entries


def is_text(line: str) -> bool:
    """Tell whether a line is in one of the forms of :func:`read_text`."""
    return line.startswith(("depot,", "['", '["')) or " output " in line


def _parse_line(line: str, name: str, rounding: str | None) -> Entry:
    if line.startswith("["):
        tokens = [token.strip().strip("'\"") for token in line.strip("[]").split(",")]
        instance = _library_cvrp(tokens) if "depot" in tokens else _library_tsp(tokens)
        return Entry(with_rounding(instance, rounding))
    if line.startswith("depot"):
        return _random_cvrp([token.strip() for token in line.rstrip(",").split(",")], name)
    return _random_tsp(line.split(), name)


def _random_tsp(tokens: list[str], name: str) -> Entry:
    if "output" not in tokens:
        raise InstanceFormatError("the line holds no instance: there is neither 'output' nor 'depot' in it")
    border = tokens.index("output")
    instance = Instance(name, "tsp", _points(tokens[:border], "the coordinates"))
    tour = _integers(tokens[border + 1 :], "the tour") - 1
    if len(tour) > 1 and tour[-1] == tour[0]:
        tour = tour[:-1]
    return _with_length(instance, [tour])


def _random_cvrp(tokens: list[str], name: str) -> Entry:
    parts = _parts(tokens, ("depot", "customer", "capacity", "demand"), ("cost", "node_flag"))
    instance = _cvrp(name, parts, "EXACT")
    if "node_flag" in parts:
        numbers = _integers(parts["node_flag"], "node_flag")
        if len(numbers) != 2 * instance.num_customers:
            wrong = f"{len(numbers)} numbers follow node_flag, {instance.num_customers} customers need twice as many"
            raise InstanceFormatError(wrong)
        nodes, from_depot = numbers.reshape(2, -1)
        starts = np.flatnonzero(from_depot)
        return _with_length(instance, [route for route in np.split(nodes, starts) if len(route)])
    if "cost" in parts:
        instance = _with_cost(instance, parts["cost"])
    return Entry(instance)


def _library_tsp(tokens: list[str]) -> Instance:
    if len(tokens) < 2:
        raise InstanceFormatError("the list holds no name and optimum")
    instance = Instance(tokens[0], "tsp", _points(tokens[2:], "the coordinates"), ROUNDINGS["nint"])
    return _with_cost(instance, tokens[1:2])


def _library_cvrp(tokens: list[str]) -> Instance:
    parts = _parts(tokens, ("name", "depot", "customer", "demand", "capacity"), ("cost", "end"))
    instance = _cvrp(" ".join(parts["name"]), parts, ROUNDINGS["nint"])
    return _with_cost(instance, parts["cost"]) if "cost" in parts else instance


def _cvrp(name: str, parts: dict[str, list[str]], metric: str) -> Instance:
    """Build a CVRP from the tokens behind its keywords; the depot's demand may be left out."""
    coords = _points(parts["depot"] + parts["customer"], "the coordinates")
    demand = _integers(parts["demand"], "the demands")
    if len(demand) == len(coords) - 1:
        demand = np.concatenate([[0], demand])
    capacity = int(_one(_integers(parts["capacity"], "the capacity"), "the capacity"))
    return Instance(name, "cvrp", coords, metric, demand=demand, capacity=capacity)


def _with_length(instance: Instance, routes: Sequence[NDArray[np.int64]]) -> Entry:
    """Judge routes and make their length the reference."""
    solution = Solution.judged(instance, routes)
    return Entry(instance.with_reference(solution.cost, "best-known"), solution.routes)


def _with_cost(instance: Instance, tokens: Sequence[str]) -> Instance:
    """Make a stored cost the reference."""
    return instance.with_reference(_one(_numbers(tokens, "the cost"), "the cost"), "best-known")


def _parts(tokens: list[str], needed: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, list[str]]:
    """Cut tokens at keywords into the tokens behind each."""
    places = {word: tokens.index(word) for word in (*needed, *optional) if word in tokens}
    missing = [word for word in needed if word not in places]
    if missing:
        raise InstanceFormatError(f"{missing[0]!r} is missing")
    borders = sorted(places.values())
    ends = dict(zip(borders, [*borders[1:], len(tokens)], strict=True))
    return {word: tokens[start + 1 : ends[start]] for word, start in places.items()}


def _numbers(tokens: Sequence[str], what: str) -> NDArray[np.float64]:
    values = [parse_number(token) for token in tokens]
    if None in values:
        raise InstanceFormatError(f"{what}: {tokens[values.index(None)]!r} is not a finite number")
    return np.array(values, dtype=np.float64)


def _integers(tokens: Sequence[str], what: str) -> NDArray[np.int64]:
    values = _numbers(tokens, what)
    whole = is_whole(values)
    if not whole.all():
        raise InstanceFormatError(f"{what}: {tokens[int(np.argmin(whole))]} is not a whole number")
    return values.astype(np.int64)


def _points(tokens: Sequence[str], what: str) -> NDArray[np.float64]:
    if len(tokens) % 2:
        raise InstanceFormatError(f"{what}: {len(tokens)} numbers are not pairs of x and y")
    return _numbers(tokens, what).reshape(-1, 2)


def _one(values: NDArray[Any], what: str) -> float:
    if len(values) != 1:
        raise InstanceFormatError(f"{what}: one number is needed, not {len(values)}")
    return values[0]


def read_pickle(path: str | Path) -> list[Entry]:
    """Read a pickle of Kool et al.: a list of TSPs (coordinates) or of CVRPs (depot, customers, demands, capacity).

    Nothing in the file is run: a pickle that asks for anything but plain values and numpy arrays is refused.

    Raises
    ------
    InstanceFormatError
        If the file is no such pickle, naming the first row that is broken.
    """
    path = Path(path)
    try:
        rows = _PlainUnpickler(io.BytesIO(path.read_bytes())).load()
    except Exception as error:  # a broken pickle may raise nearly anything
        reason = " ".join(str(error).split())
        raise InstanceFormatError(f"cannot be read as a pickle of plain values: {reason}", path) from error
    if not isinstance(rows, list | tuple | np.ndarray) or not len(rows):
        raise InstanceFormatError("the pickle holds no list of instances", path)
    entries = []
    for row, (name, data) in enumerate(zip(row_names(path, len(rows)), rows, strict=True)):
        try:
            entries.append(Entry(_from_pickled(name, data)))
        except NcoError as error:
            raise InstanceFormatError(f"row {row}: {error}", path) from error
    return entries


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain values and numpy arrays, and no object of any other class."""

    # numpy moved its internals once, and the former names live on in files. Pickles before protocol 3 hold bytes as
    # encoded text.
    _ALLOWED = frozenset(
        [
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy.core.multiarray", "scalar"),
            ("numpy._core.multiarray", "scalar"),
            ("numpy.core.numeric", "_frombuffer"),
            ("numpy._core.numeric", "_frombuffer"),
            ("_codecs", "encode"),
        ]
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _from_pickled(name: str, data: Any) -> Instance:
    """Build a CVRP from (depot, customers, demands, capacity), or a TSP from coordinates."""
    try:
        if len(data) == 4 and np.ndim(data[3]) == 0:
            depot, customers, demands, capacity = data
            if float(capacity) != int(capacity):
                raise InstanceFormatError(f"the capacity {capacity} is not a whole number")
            coords = np.vstack([np.reshape(depot, (1, 2)), np.asarray(customers, dtype=np.float64)])
            demand = np.concatenate([[0], np.asarray(demands)])
            return Instance(name, "cvrp", coords, demand=demand, capacity=int(capacity))
        return Instance(name, "tsp", np.asarray(data, dtype=np.float64))
    except NcoError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InstanceFormatError(f"neither coordinates nor (depot, customers, demands, capacity): {error}") from error


def read_tensor(path: str | Path) -> list[Entry]:
    """Read a tensor of GFACS: the coordinates of TSPs, float [B, N, 2].

    Raises
    ------
    InstanceFormatError
        If the file is no such tensor, naming the first row that is broken.
    """
    import torch

    path = Path(path)
    try:
        coords = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken archive may raise nearly anything
        # torch's own message advises to load the file with code and all.
        raise InstanceFormatError("is no file of a plain tensor that torch.load could read", path) from error
    if not isinstance(coords, torch.Tensor):
        raise InstanceFormatError(f"holds a {type(coords).__name__}, not a tensor of coordinates", path)
    if coords.ndim != 3 or coords.shape[-1] != 2 or not len(coords) or not coords.is_floating_point():
        what = f"{coords.dtype} {list(coords.shape)}"
        raise InstanceFormatError(f"holds a tensor {what}, not coordinates float [B, N, 2]", path)
    entries = []
    for row, name in enumerate(row_names(path, len(coords))):
        try:
            entries.append(Entry(Instance(name, "tsp", coords[row].double().numpy())))
        except NcoError as error:
            raise InstanceFormatError(f"row {row}: {error}", path) from error
    return entries
