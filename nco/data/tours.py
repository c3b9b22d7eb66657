"""Solutions as files: TSPLIB tours (.tour) and CVRPLIB solutions (.sol), in and out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nco.data.keyword_file import KeywordFile, format_number, parse_number, read_lines
from nco.errors import InstanceFormatError, UsageError
from nco.instance import Instance
from nco.solution import Routes, Solution

_ROUTE_LINE = re.compile(r"route\s*#?\s*\d+\s*:(.*)", re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
_STATEMENT = re.compile(r"([a-z][a-z _]*?)\s*:?\s+(\S+)", re.IGNORECASE)


def read_routes(path: str | Path, instance: Instance) -> Routes:
    """Read a solution of an instance: a .tour file for a TSP, a .sol file for a CVRP.

    Raises
    ------
    InstanceFormatError
        If the file is broken, or is no solution of the instance.
    """
    return read_tour(path, instance) if instance.problem == "tsp" else read_solution(path, instance)


def write_routes(solution: Solution, instance: Instance, path: str | Path) -> None:
    """Write a solution: a .tour file for a TSP, a .sol file for a CVRP."""
    if instance.problem == "tsp":
        write_tour(solution, instance, path)
    else:
        write_solution(solution, instance, path)


def read_tour(path: str | Path, instance: Instance) -> Routes:
    """Read the tour of a TSP in TSPLIB95's format: the file ids of its nodes, ended by -1.

    Returns
    -------
    list of one int64 [N]
        Node indices of the instance.

    Raises
    ------
    InstanceFormatError
        If the file is broken, or is not one tour through all nodes of the instance, with the line.
    UsageError
        If the instance is no TSP.
    """
    _require(instance, "tsp", ".tour")
    assert instance.node_ids is not None
    file = KeywordFile(path, ("NAME", "COMMENT", "TYPE", "DIMENSION", "TOUR_SECTION"))
    if "TYPE" in file.fields:
        kind, line = file.word("TYPE")
        if kind != "TOUR":
            raise file.fault(f"TYPE {kind!r}, but a tour file has the type TOUR", line)
    if "DIMENSION" in file.fields:
        dimension = file.whole_number("DIMENSION", minimum=1)
        if dimension != instance.num_nodes:
            line = file.field("DIMENSION").line
            raise file.fault(f"DIMENSION is {dimension}, but the instance has {instance.num_nodes} nodes", line)
    section = file.section("TOUR_SECTION")
    ids = section.listing()
    nodes = _find(ids, instance.node_ids)
    if (nodes < 0).any():
        index = int(np.argmax(nodes < 0))
        raise section.fault(f"{ids[index]} is no node of the instance", section.line_of(index))
    order = np.argsort(nodes, kind="stable")
    repeated = np.flatnonzero(np.diff(nodes[order]) == 0)
    if len(repeated):
        index = int(order[repeated[0] + 1])
        raise section.fault(f"node {ids[index]} is visited twice", section.line_of(index))
    if len(nodes) != instance.num_nodes:
        raise section.fault(f"{len(nodes)} nodes are visited, the instance has {instance.num_nodes}", section.end)
    return [nodes]


def write_tour(solution: Solution, instance: Instance, path: str | Path) -> None:
    """Write the tour of a TSP in TSPLIB95's format, with the instance's own node ids.

    Raises
    ------
    UsageError
        If the instance is no TSP.
    """
    _require(instance, "tsp", ".tour")
    assert instance.node_ids is not None
    lines = [
        f"NAME : {' '.join(instance.name.split())}",
        f"COMMENT : length {format_number(solution.cost)}",
        "TYPE : TOUR",
        f"DIMENSION : {instance.num_nodes}",
        "TOUR_SECTION",
        *map(str, instance.node_ids[solution.routes[0]]),
        "-1",
        "EOF",
        "",
    ]
    Path(path).write_text("\n".join(lines), encoding="utf-8")


def read_solution(path: str | Path, instance: Instance) -> Routes:
    """Read the routes of a CVRP in either form of CVRPLIB.

    Both number the customers without the depot: customer k is the k-th node, by ascending file id, that is no depot.
    The new form has a line ``Route #1: 5 2 7`` per route and statements such as ``Cost 784``. The old one starts with
    the cost and the number of routes, then has a line ``0 1 ROUTE LENGTH LOAD STOPS 0 5 2 7 0`` per route, where
    STOPS counts the visits, both zeros included. Costs and loads in the file are not taken over.

    Returns
    -------
    list of int64 arrays
        Node indices of the instance, without the depot; empty routes are left out.

    Raises
    ------
    InstanceFormatError
        If the file is broken, or its routes do not serve each customer of the instance once within the capacity,
        with the line.
    UsageError
        If the instance is no CVRP.
    """
    _require(instance, "cvrp", ".sol")
    path = Path(path)
    lines = [(number, line.strip()) for number, line in enumerate(read_lines(path), 1) if line.strip()]
    read = _new_form if lines[0][1][0].isalpha() else _old_form
    return _serve_all(read(lines, path), _customers(instance), instance, path, lines[-1][0])


def write_solution(solution: Solution, instance: Instance, path: str | Path) -> None:
    """Write the routes of a CVRP in the new form of CVRPLIB, see :func:`read_solution`.

    Raises
    ------
    UsageError
        If the instance is no CVRP.
    """
    _require(instance, "cvrp", ".sol")
    number = np.empty(instance.num_nodes, dtype=np.int64)
    number[_customers(instance)] = np.arange(1, instance.num_nodes)
    lines = [
        f"Route #{row}: {' '.join(map(str, number[route]))}"
        for row, route in enumerate((route for route in solution.routes if len(route)), 1)
    ]
    Path(path).write_text("\n".join([*lines, f"Cost {format_number(solution.cost)}", ""]), encoding="utf-8")


def _require(instance: Instance, problem: str, form: str) -> None:
    if instance.problem != problem:
        raise UsageError(f"instance {instance.name!r} is a {instance.problem}; {form} files are for the {problem}")


def _find(ids: NDArray[np.int64], node_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the node index of each file id, -1 where there is none."""
    order = np.argsort(node_ids)
    nodes = order[np.searchsorted(node_ids[order], ids).clip(max=len(order) - 1)]
    return np.where(node_ids[nodes] == ids, nodes, -1)


def _customers(instance: Instance) -> NDArray[np.int64]:
    """Return the node indices of customers 1, 2, ..., by ascending file id."""
    assert instance.node_ids is not None
    return 1 + np.argsort(instance.node_ids[1:])


def _new_form(lines: list[tuple[int, str]], path: Path) -> Iterator[tuple[int, list[int]]]:
    """Yield the line and the customer numbers of each route."""
    for line, text in lines:
        route = _ROUTE_LINE.fullmatch(text)
        if route is not None:
            yield line, _whole_numbers(route[1].split(), path, line)
            continue
        statement = _STATEMENT.fullmatch(text)
        if statement is None or parse_number(statement[2]) is None:
            raise InstanceFormatError(f"{text!r} is neither a route nor a statement such as 'Cost 784'", path, line)


def _old_form(lines: list[tuple[int, str]], path: Path) -> Iterator[tuple[int, list[int]]]:
    """Yield the line and the customer numbers of each route."""
    count, routes = None, 0
    for row, (line, text) in enumerate(lines):
        tokens = text.split()
        if len(tokens) == 1:
            # The head of the file: cost, number of routes, and times or further figures.
            if parse_number(text) is None or routes:
                raise InstanceFormatError(f"{text!r} is not a route", path, line)
            if row == 1:
                (count,) = _whole_numbers(tokens, path, line)
            continue
        visits = _whole_numbers(tokens[5:], path, line)
        if len(visits) < 3 or visits[0] != len(visits) - 1 or visits[1] != 0 or visits[-1] != 0:
            raise InstanceFormatError(
                "a route must read '0 1 ROUTE LENGTH LOAD STOPS 0 customers... 0' with as many visits as STOPS says",
                path,
                line,
            )
        routes += 1
        yield line, visits[2:-1]
    if routes != count:
        raise InstanceFormatError(f"{routes} routes, but the file's second line says {count}", path, lines[-1][0])


def _whole_numbers(tokens: list[str], path: Path, line: int) -> list[int]:
    wrong = [token for token in tokens if not _WHOLE_NUMBER.fullmatch(token)]
    if wrong:
        raise InstanceFormatError(f"{wrong[0]!r} is not a whole number", path, line)
    return [int(token) for token in tokens]


def _serve_all(
    numbered: Iterator[tuple[int, list[int]]], customers: NDArray[np.int64], instance: Instance, path: Path, last: int
) -> Routes:
    """Turn routes of customer numbers into routes of nodes that serve each customer once, or name the line."""
    assert instance.demand is not None
    assert instance.capacity is not None
    routes: Routes = []
    served_on: dict[int, int] = {}
    for line, numbers in numbered:
        for number in numbers:
            if not 1 <= number <= len(customers):
                reason = f"there is no customer {number}; the instance has {len(customers)}"
                raise InstanceFormatError(reason, path, line)
            if number in served_on:
                reason = f"customer {number} is already served on line {served_on[number]}"
                raise InstanceFormatError(reason, path, line)
            served_on[number] = line
        route = customers[np.array(numbers, dtype=np.int64) - 1]
        load = int(instance.demand[route].sum())
        if load > instance.capacity:
            raise InstanceFormatError(f"the route carries {load}, above the capacity {instance.capacity}", path, line)
        if len(route):
            routes.append(route)
    if len(served_on) < len(customers):
        missing = next(number for number in range(1, len(customers) + 1) if number not in served_on)
        reason = f"customer {missing} is not served; {len(customers) - len(served_on)} of {len(customers)} are missing"
        raise InstanceFormatError(reason, path, last)
    return routes
