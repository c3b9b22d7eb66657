"""Instances in the formats of TSPLIB95 (Reinelt 1991) and CVRPLIB, in and out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nco.data.keyword_file import KeywordFile, Section, format_number
from nco.errors import UsageError
from nco.geometry import DENSE_LIMIT
from nco.instance import Instance

# EDGE_WEIGHT_TYPE -> metric. EXACT_2D, a name of LKH-3, stands for distances that are not rounded at all.
_METRICS = {
    "EUC_2D": "EUC_2D",
    "CEIL_2D": "CEIL_2D",
    "EXACT_2D": "EXACT",
    "ATT": "ATT",
    "GEO": "GEO",
    "EXPLICIT": "EXPLICIT",
}
_EUCLIDEAN = ("EUC_2D", "CEIL_2D", "EXACT")
ROUNDINGS = {"nint": "EUC_2D", "ceil": "CEIL_2D", "none": "EXACT"}

# A symmetric matrix written by columns is the transposed triangle written by rows.
_MATRIX_FORMATS = {
    "FULL_MATRIX": "FULL_MATRIX",
    "LOWER_ROW": "LOWER_ROW",
    "LOWER_DIAG_ROW": "LOWER_DIAG_ROW",
    "UPPER_ROW": "UPPER_ROW",
    "UPPER_DIAG_ROW": "UPPER_DIAG_ROW",
    "UPPER_COL": "LOWER_ROW",
    "UPPER_DIAG_COL": "LOWER_DIAG_ROW",
    "LOWER_COL": "UPPER_ROW",
    "LOWER_DIAG_COL": "UPPER_DIAG_ROW",
}

_KEYWORDS = {
    "NAME",
    "COMMENT",
    "TYPE",
    "DIMENSION",
    "EDGE_WEIGHT_TYPE",
    "EDGE_WEIGHT_FORMAT",
    "NODE_COORD_TYPE",
    "DISPLAY_DATA_TYPE",
    "NODE_COORD_SECTION",
    "DISPLAY_DATA_SECTION",
    "EDGE_WEIGHT_SECTION",
    "FIXED_EDGES_SECTION",
}
_CVRP_KEYWORDS = {"CAPACITY", "DEMAND_SECTION", "DEPOT_SECTION"}
# Constraints that change the problem: a solution that ignored them would be wrong, so they are named and refused.
_CONSTRAINTS = {
    "DISTANCE": "a limit on the length of routes",
    "SERVICE_TIME": "a service time",
    "VEHICLES": "a limit on the fleet",
    "TIME_WINDOW_SECTION": "a time window",
    "BACKHAUL_SECTION": "a backhaul",
    "PICKUP_AND_DELIVERY_SECTION": "pickup and delivery",
}


def read_instance(path: str | Path, *, rounding: str | None = None) -> Instance:
    """Read a TSP (.tsp) or CVRP (.vrp) file.

    Nodes come in the order of ascending file ids; the depot of a CVRP, wherever it stands, becomes node 0. Row i of an
    explicit matrix belongs to the i-th smallest id. Its diagonal is set to 0; coordinates beside it, for display or
    not, become the instance's.

    Parameters
    ----------
    path : path-like
    rounding : {"nint", "ceil", "none"}, optional
        How Euclidean distances are rounded: to the nearest integer (halves up), up, or not at all. By default as the
        file's EDGE_WEIGHT_TYPE says. The sets Golden, Li and CMT say EUC_2D and mean "none". ATT, GEO and EXPLICIT
        have but one definition, so this leaves them alone.

    Raises
    ------
    InstanceFormatError
        If the file is broken or not supported, with the line.
    UsageError
        If there is no such rounding.
    """
    file = KeywordFile(path, _KEYWORDS | _CVRP_KEYWORDS, _CONSTRAINTS)
    problem = _read_problem(file)
    dimension = file.whole_number("DIMENSION", minimum=2)
    metric = _read_metric(file)
    nodes = _read_coords(file, metric, dimension)
    weights = _read_weights(file, dimension) if metric == "EXPLICIT" else None
    demands = _read_node_table(file.section("DEMAND_SECTION"), "id demand", dimension) if problem == "cvrp" else None
    ids = np.arange(1, dimension + 1)
    if nodes is not None:
        ids = nodes.ids
    elif demands is not None:
        ids = demands.ids
    order = np.arange(dimension)
    demand = capacity = None
    if demands is not None:
        capacity = file.whole_number("CAPACITY", minimum=1)
        depot = _read_depot(file, ids)
        demand = _check_demand(demands, ids, depot, capacity)
        order = np.concatenate([[depot], np.delete(order, depot)])
        demand = demand[order]
    instance = Instance(
        name=(file.fields["NAME"].value if "NAME" in file.fields else "") or file.path.stem,
        problem=problem,
        coords=None if nodes is None else nodes.values[order],
        metric=metric,
        weights=None if weights is None else weights[np.ix_(order, order)],
        demand=demand,
        capacity=capacity,
        node_ids=ids[order],
    )
    return with_rounding(instance, rounding)


def with_rounding(instance: Instance, rounding: str | None) -> Instance:
    """Return a Euclidean instance with another rounding of its distances; see :func:`read_instance`.

    A reference cost that belongs to the former rounding is dropped.

    Raises
    ------
    UsageError
        If there is no such rounding.
    """
    if rounding is None:
        return instance
    if rounding not in ROUNDINGS:
        raise UsageError(f"no rounding {rounding!r}; there are {', '.join(ROUNDINGS)}")
    metric = ROUNDINGS[rounding]
    if instance.metric not in _EUCLIDEAN or instance.metric == metric:
        return instance
    return replace(instance, metric=metric, reference=None)


def _read_problem(file: KeywordFile) -> str:
    """Return the problem of a file and refuse what does not belong to it."""
    kind, line = file.word("TYPE")
    if kind not in ("TSP", "CVRP"):
        raise file.fault(f"TYPE {kind!r} is not supported, only TSP and CVRP are", line)
    if kind == "TSP":
        for key in sorted(_CVRP_KEYWORDS):
            place = file.fields.get(key) or file.sections.get(key)
            if place is not None:
                raise file.fault(f"{key} does not belong to a TSP", place.line)
    fixed = file.sections.get("FIXED_EDGES_SECTION")
    if fixed is not None and len(fixed.listing()):
        raise fixed.fault("fixed edges are not supported", fixed.line_of(0))
    return kind.lower()


def _read_metric(file: KeywordFile) -> str:
    """Return the metric, once the fields about distances agree with one another and with the sections."""
    kind, line = file.word("EDGE_WEIGHT_TYPE")
    if kind not in _METRICS:
        raise file.fault(f"EDGE_WEIGHT_TYPE {kind!r} is not supported, only {', '.join(_METRICS)} are", line)
    if "NODE_COORD_TYPE" in file.fields:
        space, line = file.word("NODE_COORD_TYPE")
        if space not in ("TWOD_COORDS", "NO_COORDS"):
            raise file.fault(f"NODE_COORD_TYPE {space!r} is not supported, only coordinates in the plane are", line)
    if kind != "EXPLICIT":
        given = file.sections.get("EDGE_WEIGHT_SECTION")
        if given is not None:
            raise given.fault(f"weights are given although EDGE_WEIGHT_TYPE is {kind}", given.line)
        if "EDGE_WEIGHT_FORMAT" in file.fields:
            layout, line = file.word("EDGE_WEIGHT_FORMAT")
            if layout != "FUNCTION":
                raise file.fault(f"EDGE_WEIGHT_FORMAT {layout!r} contradicts EDGE_WEIGHT_TYPE {kind}", line)
    return _METRICS[kind]


@dataclass(frozen=True, eq=False)
class _NodeTable:
    """A section with one line per node: an id and values.

    ``ids`` and ``values`` ascend by id; ``order[i]`` is the row of ``table``, as it stands in the file, that holds the
    i-th smallest id.
    """

    section: Section
    table: NDArray[np.float64]
    order: NDArray[np.int64]
    ids: NDArray[np.int64]

    @property
    def values(self) -> NDArray[np.float64]:
        return self.table[self.order, 1:]

    def line_of(self, position: int) -> int:
        """Return the line of the node at a position of the ascending order."""
        return self.section.line_of(int(self.order[position]) * self.table.shape[1])


def _read_node_table(section: Section, what: str, dimension: int) -> _NodeTable:
    """Read a section whose lines hold an id and values, as ``what`` names them."""
    columns = len(what.split())
    table = section.table(columns, repr(what))
    if len(table) != dimension:
        line = section.line_of(dimension * columns) if len(table) > dimension else section.end
        raise section.fault(f"{len(table)} nodes, but DIMENSION is {dimension}", line)
    ids = section.integers(table, 0, columns)
    if ids.min() < 0:
        row = int(np.argmax(ids < 0))
        raise section.fault(f"the node id {ids[row]} is negative", section.line_of(row * columns))
    order = np.argsort(ids, kind="stable")
    nodes = _NodeTable(section, table, order, ids[order])
    repeated = np.flatnonzero(np.diff(nodes.ids) == 0)
    if len(repeated):
        position = int(repeated[0]) + 1
        raise section.fault(f"the node id {nodes.ids[position]} occurs twice", nodes.line_of(position))
    return nodes


def _read_coords(file: KeywordFile, metric: str, dimension: int) -> _NodeTable | None:
    """Read the coordinates; those for display stand in where an explicit matrix has no others."""
    if metric != "EXPLICIT":
        return _read_node_table(file.section("NODE_COORD_SECTION"), "id x y", dimension)
    for key in ("NODE_COORD_SECTION", "DISPLAY_DATA_SECTION"):
        if key in file.sections:
            return _read_node_table(file.sections[key], "id x y", dimension)
    return None


def _read_weights(file: KeywordFile, dimension: int) -> NDArray[np.float64]:
    """Read an explicit matrix in any of its layouts, symmetric with a zero diagonal, float64 [N, N]."""
    if dimension > DENSE_LIMIT:
        line = file.field("DIMENSION").line
        raise file.fault(f"explicit matrices are supported up to {DENSE_LIMIT} nodes, this has {dimension}", line)
    layout, line = file.word("EDGE_WEIGHT_FORMAT")
    if layout not in _MATRIX_FORMATS:
        raise file.fault(f"EDGE_WEIGHT_FORMAT {layout!r} is not supported for explicit weights", line)
    layout = _MATRIX_FORMATS[layout]
    section = file.section("EDGE_WEIGHT_SECTION")
    numbers = section.numbers()
    triangle = dimension * (dimension - 1) // 2 + dimension * ("DIAG" in layout)
    expected = dimension**2 if layout == "FULL_MATRIX" else triangle
    if len(numbers) != expected:
        line = section.line_of(expected) if len(numbers) > expected else section.end
        raise section.fault(f"{len(numbers)} weights, but {layout} of {dimension} nodes needs {expected}", line)
    weights = _full_matrix(section, numbers) if layout == "FULL_MATRIX" else _triangle(layout, numbers, dimension)
    np.fill_diagonal(weights, 0.0)
    return weights


def _full_matrix(section: Section, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shape a full matrix, which must be symmetric."""
    dimension = math.isqrt(len(numbers))
    weights = numbers.reshape(dimension, dimension)
    unequal = np.tril(weights != weights.T)
    if unequal.any():
        index = int(np.argmax(unequal))
        row, column = divmod(index, dimension)
        reason = f"asymmetric at row {row + 1}, column {column + 1}; asymmetric problems are not supported"
        raise section.fault(reason, section.line_of(index))
    return weights


def _triangle(layout: str, numbers: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Fill a symmetric matrix from one triangle, with or without the diagonal."""
    diagonal = "DIAG" in layout
    if layout.startswith("LOWER"):
        rows, columns = np.tril_indices(dimension, 0 if diagonal else -1)
    else:
        rows, columns = np.triu_indices(dimension, 0 if diagonal else 1)
    weights = np.zeros((dimension, dimension))
    weights[rows, columns] = numbers
    weights[columns, rows] = numbers
    return weights


def _read_depot(file: KeywordFile, ids: NDArray[np.int64]) -> int:
    """Return the position of the one depot among the ascending ids."""
    section = file.section("DEPOT_SECTION")
    depots = section.listing()
    if len(depots) != 1:
        line = section.line_of(1) if len(depots) > 1 else section.end
        raise section.fault(f"{len(depots)} depots; exactly one is supported", line)
    position = np.flatnonzero(ids == depots[0])
    if not len(position):
        raise section.fault(f"the depot {depots[0]} is no node of the file", section.line_of(0))
    return int(position[0])


def _check_demand(demands: _NodeTable, ids: NDArray[np.int64], depot: int, capacity: int) -> NDArray[np.int64]:
    """Return whole demands in the order of ascending ids, each of which the capacity can hold."""
    foreign = ~np.isin(demands.ids, ids)
    if foreign.any():
        position = int(np.argmax(foreign))
        reason = f"node {demands.ids[position]} is not among those with coordinates"
        raise demands.section.fault(reason, demands.line_of(position))
    demand = demands.section.integers(demands.table, 1, 2)[demands.order]
    for wrong, rule in (
        (demand < 0, "is negative"),
        (demand > capacity, f"is above the capacity {capacity}"),
        ((demand != 0) & (np.arange(len(demand)) == depot), "belongs to the depot, whose demand must be 0"),
    ):
        if wrong.any():
            position = int(np.argmax(wrong))
            reason = f"the demand {demand[position]} of node {ids[position]} {rule}"
            raise demands.section.fault(reason, demands.line_of(position))
    return demand


def write_instance(instance: Instance, path: str | Path) -> None:
    """Write an instance as a TSPLIB95 (.tsp) or CVRPLIB (.vrp) file.

    Nodes stand in the order of ascending ids, so that a depot returns to its place, and numbers in the shortest form
    that reads back exactly. The metric EXACT is written as EXACT_2D. References are not part of the format.

    Raises
    ------
    UsageError
        If the format cannot hold the node ids: negative ones, or other ids than 1..N for a TSP that is a mere matrix.
    """
    assert instance.node_ids is not None
    order = np.argsort(instance.node_ids)
    ids = instance.node_ids[order]
    if ids[0] < 0:
        raise UsageError(f"instance {instance.name!r}: a TSPLIB file cannot hold the negative node id {ids[0]}")
    kind = next(kind for kind, metric in _METRICS.items() if metric == instance.metric)
    lines = [
        f"NAME : {' '.join(instance.name.split())}",
        f"TYPE : {instance.problem.upper()}",
        f"DIMENSION : {instance.num_nodes}",
        f"EDGE_WEIGHT_TYPE : {kind}",
    ]
    if instance.weights is not None:
        lines.append("EDGE_WEIGHT_FORMAT : FULL_MATRIX")
        if instance.coords is not None:
            lines.append("DISPLAY_DATA_TYPE : TWOD_DISPLAY")
        elif instance.problem == "tsp" and not np.array_equal(ids, np.arange(1, instance.num_nodes + 1)):
            raise UsageError(f"instance {instance.name!r}: a matrix without coordinates has no place for its node ids")
    if instance.problem == "cvrp":
        lines.append(f"CAPACITY : {instance.capacity}")
    if instance.weights is not None:
        lines.append("EDGE_WEIGHT_SECTION")
        lines += [" ".join(map(format_number, row)) for row in instance.weights[np.ix_(order, order)].tolist()]
    if instance.coords is not None:
        lines.append("NODE_COORD_SECTION" if instance.weights is None else "DISPLAY_DATA_SECTION")
        places = zip(ids.tolist(), instance.coords[order].tolist(), strict=True)
        lines += [f"{node} {format_number(x)} {format_number(y)}" for node, (x, y) in places]
    if instance.demand is not None:
        lines.append("DEMAND_SECTION")
        lines += [f"{node} {demand}" for node, demand in zip(ids, instance.demand[order], strict=True)]
        lines += ["DEPOT_SECTION", str(instance.node_ids[0]), "-1"]
    Path(path).write_text("\n".join([*lines, "EOF", ""]), encoding="utf-8")
