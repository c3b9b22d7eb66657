"""Moves between and within the routes of a CVRP, as numba kernels; see route_descent.

A solution is a cyclic list for each route through a token of its own, N + its number, that stands for the depot. With
each token goes its route, its place on it and the load up to it, so a move is judged in constant time, and one that is
made takes time in proportion to the lengths of its two routes.

Every move of a customer u puts in an edge from u to a near customer v, shorter than the longer of the two edges of u:
the first partial gain of Lin and Kernighan (1973) is positive. At the ends of a route, where moves begin with an edge
of the depot too, it is shorter than both together:

- Relocation: up to three customers from u on, in either direction, go next to v, u at its side.
- Exchange (of different routes): one or two customers from u on change places with one or two next to v.
- Crossing: two edges are cut and the ends are joined the other two ways. On one route it is a 2-opt move, on two a
  2-opt* move (Potvin and Rousseau 1995), in which routes may also merge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nco.search.space import distance

NO_MOVE, RELOCATE, EXCHANGE, CROSS = range(4)
_MOST_RELOCATED, _MOST_EXCHANGED = 3, 2


class Plan(NamedTuple):
    """A solution under search; R routes, N nodes.

    Attributes
    ----------
    succ, pred : int32 [N + R]
        Next and previous token.
    route, place : int32 [N + R]
        Route of a token, and its place behind the depot.
    until : int64 [N + R]
        Load of the route up to and with the token.
    load : int64 [R]
    changed : bool [R]
        Whether a route has changed since this was last cleared.
    demand : int64 [N]
    capacity : int64 [1]
    scratch : int32 [N + R]
    """

    succ: NDArray[np.int32]
    pred: NDArray[np.int32]
    route: NDArray[np.int32]
    place: NDArray[np.int32]
    until: NDArray[np.int64]
    load: NDArray[np.int64]
    changed: NDArray[np.bool_]
    demand: NDArray[np.int64]
    capacity: NDArray[np.int64]
    scratch: NDArray[np.int32]


@njit(cache=True, nogil=True)
def apart(space, plan, tail, head):  # type: ignore[no-untyped-def]
    """Return the distance of two tokens."""
    size = len(plan.demand)
    return distance(space, tail if tail < size else 0, head if head < size else 0)


@njit(cache=True, nogil=True)
def load_plan(plan, tour):  # type: ignore[no-untyped-def]
    """Take the routes of a giant tour, int64 [L]; those that are left over become empty."""
    size = len(plan.demand)
    number, last = -1, 0
    for step in range(len(tour)):
        node = tour[step]
        if node == 0:
            continue
        if step == 0 or tour[step - 1] == 0:
            number += 1
            last = size + number
        plan.succ[last], plan.pred[node] = node, last
        last = node
        plan.succ[last], plan.pred[size + number] = size + number, last
    for route in range(len(plan.load)):
        if route > number:
            plan.succ[size + route] = plan.pred[size + route] = size + route
        refresh(plan, route)


@njit(cache=True, nogil=True)
def save_plan(plan, tour):  # type: ignore[no-untyped-def]
    """Write the giant tour into int64 [L], with zeros at the end."""
    size = len(plan.demand)
    tour[:] = 0
    step = 0
    for route in range(len(plan.load)):
        node = plan.succ[size + route]
        if node >= size:
            continue
        while node < size:
            step += 1
            tour[step] = node
            node = plan.succ[node]
        step += 1


@njit(cache=True, nogil=True)
def plan_length(space, plan):  # type: ignore[no-untyped-def]
    """Return the length of all routes."""
    total = 0.0
    for token in range(1, len(plan.succ)):
        total += apart(space, plan, token, plan.succ[token])
    return total


@njit(cache=True, nogil=True)
def refresh(plan, route):  # type: ignore[no-untyped-def]
    """Count a route anew after a change of its links."""
    size = len(plan.demand)
    token, place, load = size + route, 0, 0
    plan.route[token], plan.place[token], plan.until[token] = route, 0, 0
    token = plan.succ[token]
    while token < size:
        place += 1
        load += plan.demand[token]
        plan.route[token], plan.place[token], plan.until[token] = route, place, load
        token = plan.succ[token]
    plan.load[route] = load
    plan.changed[route] = True


@njit(cache=True, nogil=True)
def find_move(space, plan, neighbours, reach, tolerance, u):  # type: ignore[no-untyped-def]
    """Find an improving move of a customer: the best of the nearest v that has any.

    Parameters
    ----------
    space : Space
    plan : Plan
    neighbours : int32 [N, K]
        Near customers of each, nearest first.
    reach : float64 [N, K]
        Distances to them.
    tolerance : float
        A move must gain more than this.
    u : int

    Returns
    -------
    gain : float
    kind : int
    v : int
    forward, after : bool
        Relocation and exchange: the segment runs from u along its route or against it, and goes behind or before v.
    count, other_count : int
        The customers of the segment, and of the one that it changes places with.
    a, b : int
        Crossing: tokens whose edges to their successors are cut; ``after`` says whether the heads are joined.
        Relocation and exchange: the ends of the segment and of the other one.
    """
    u = np.int32(u)
    gain, kind, best_v, best_a, best_b = tolerance, NO_MOVE, u, u, u
    best_forward, best_after, best_count, best_other = False, False, 0, 0
    before, behind = plan.pred[u], plan.succ[u]
    to_before, to_behind = apart(space, plan, before, u), apart(space, plan, u, behind)
    is_end = before >= len(plan.demand) or behind >= len(plan.demand)
    cut = to_before + to_behind if is_end else max(to_before, to_behind)
    for k in range(neighbours.shape[1]):
        if reach[u, k] >= cut or kind != NO_MOVE:
            break
        v = neighbours[u, k]
        same = plan.route[u] == plan.route[v]
        for variant in range(4):
            joins_heads = variant < 2
            a = u if variant % 2 == 0 else before
            b = v if (variant % 2 == 0) == joins_heads else plan.pred[v]
            if (same and not joins_heads) or a == b:
                continue
            gained = _gain_of_crossing(space, plan, a, b, joins_heads, same)
            if gained > gain:
                gain, kind, best_v, best_after, best_a, best_b = gained, CROSS, v, joins_heads, a, b
        for forward in (True, False):
            for after in (True, False):
                gained, count = _best_relocation(space, plan, u, v, forward, after, same)
                if gained > gain:
                    gain, kind, best_v, best_a, best_b = gained, RELOCATE, v, u, u
                    best_forward, best_after, best_count, best_other = forward, after, count, 0
                if same:
                    continue
                gained, count, other = _best_exchange(space, plan, u, v, forward, after)
                if gained > gain:
                    gain, kind, best_v, best_a, best_b = gained, EXCHANGE, v, u, v
                    best_forward, best_after, best_count, best_other = forward, after, count, other
    if kind in (RELOCATE, EXCHANGE):
        for _ in range(best_count - 1):
            best_a = _next(plan, best_a, best_forward)
        for number in range(best_other):
            best_b = _next(plan, best_b if number > 0 else best_v, best_after)
    return gain, kind, best_v, best_forward, best_after, best_count, best_other, best_a, best_b


@njit(cache=True, nogil=True)
def _gain_of_crossing(space, plan, a, b, joins_heads, same):  # type: ignore[no-untyped-def]
    """Return what cutting behind a and b gains, or minus infinity where a route would be overloaded."""
    behind_a, behind_b = plan.succ[a], plan.succ[b]
    if not same:
        load_a, load_b = plan.load[plan.route[a]], plan.load[plan.route[b]]
        first = plan.until[a] + (plan.until[b] if joins_heads else load_b - plan.until[b])
        if max(first, load_a + load_b - first) > plan.capacity[0]:
            return -np.inf
    cut = apart(space, plan, a, behind_a) + apart(space, plan, b, behind_b)
    if joins_heads:
        return cut - apart(space, plan, a, b) - apart(space, plan, behind_a, behind_b)
    return cut - apart(space, plan, a, behind_b) - apart(space, plan, b, behind_a)


@njit(cache=True, nogil=True)
def _next(plan, token, forward):  # type: ignore[no-untyped-def]
    return plan.succ[token] if forward else plan.pred[token]


@njit(cache=True, nogil=True)
def _best_relocation(space, plan, u, v, forward, after, same):  # type: ignore[no-untyped-def]
    """Return the gain of the best relocation next to v, and how many customers it takes."""
    size = len(plan.demand)
    other_side = _next(plan, v, after)
    start = _next(plan, u, not forward)
    opened = apart(space, plan, v, other_side) - apart(space, plan, v, u) + apart(space, plan, start, u)
    best, best_count = -np.inf, 0
    end, load = u, 0
    for count in range(1, _MOST_RELOCATED + 1):
        if end >= size or end == v or other_side == end:
            break
        load += plan.demand[end]
        if not same and plan.load[plan.route[v]] + load > plan.capacity[0]:
            break
        behind = _next(plan, end, forward)
        gained = (
            opened
            + apart(space, plan, end, behind)
            - apart(space, plan, start, behind)
            - apart(space, plan, end, other_side)
        )
        if gained > best:
            best, best_count = gained, count
        end = behind
    return best, best_count


@njit(cache=True, nogil=True)
def _best_exchange(space, plan, u, v, forward, after):  # type: ignore[no-untyped-def]
    """Return the gain of the best exchange of customers from u on with those next to v, and how many on both sides."""
    size = len(plan.demand)
    start = _next(plan, u, not forward)
    opened = apart(space, plan, start, u) - apart(space, plan, v, u)
    best, best_count, best_other = -np.inf, 0, 0
    room, other_room = (
        plan.capacity[0] - plan.load[plan.route[v]],
        plan.capacity[0] - plan.load[plan.route[u]],
    )
    first = _next(plan, v, after)
    opened += apart(space, plan, v, first)
    end, load = u, 0
    for count in range(1, _MOST_EXCHANGED + 1):
        if end >= size:
            break
        load += plan.demand[end]
        behind = _next(plan, end, forward)
        other_end, other_load = first, 0
        for other in range(1, _MOST_EXCHANGED + 1):
            if other_end >= size:
                break
            other_load += plan.demand[other_end]
            other_behind = _next(plan, other_end, after)
            if load - other_load <= room and other_load - load <= other_room:
                gained = (
                    opened
                    + apart(space, plan, end, behind)
                    + apart(space, plan, other_end, other_behind)
                    - apart(space, plan, end, other_behind)
                    - apart(space, plan, start, first)
                    - apart(space, plan, other_end, behind)
                )
                if gained > best:
                    best, best_count, best_other = gained, count, other
            other_end = other_behind
        end = behind
    return best, best_count, best_other


@njit(cache=True, nogil=True)
def _link(plan, tail, head, forward):  # type: ignore[no-untyped-def]
    """Make head follow tail, or precede it."""
    if forward:
        plan.succ[tail], plan.pred[head] = head, tail
    else:
        plan.pred[tail], plan.succ[head] = head, tail


@njit(cache=True, nogil=True)
def _take(plan, first, count, forward, begin):  # type: ignore[no-untyped-def]
    """Write the tokens from ``first`` on into the scratch; return the one behind them."""
    for index in range(count):
        plan.scratch[begin + index] = first
        first = _next(plan, first, forward)
    return first


@njit(cache=True, nogil=True)
def _lay(plan, tail, begin, count, head, forward):  # type: ignore[no-untyped-def]
    """Lay tokens of the scratch between two tokens, in the direction from tail to head."""
    for index in range(count):
        _link(plan, tail, plan.scratch[begin + index], forward)
        tail = plan.scratch[begin + index]
    _link(plan, tail, head, forward)


@njit(cache=True, nogil=True)
def make_move(plan, kind, u, v, forward, after, count, other_count, a, b):  # type: ignore[no-untyped-def]
    """Make a move of :func:`find_move`."""
    route_u, route_v = plan.route[u], plan.route[v]
    if kind == CROSS:
        _cross(plan, a, b, after)
    else:
        start = _next(plan, u, not forward)
        first = _next(plan, v, after)
        behind = _take(plan, u, count, forward, 0)
        if kind == RELOCATE:
            _link(plan, start, behind, forward)
            # Taking the segment out may have changed what is next to v.
            _lay(plan, v, 0, count, _next(plan, v, after), after)
        else:
            other_behind = _take(plan, first, other_count, after, count)
            _lay(plan, v, 0, count, other_behind, after)
            _lay(plan, start, count, other_count, behind, forward)
    refresh(plan, route_u)
    if route_v != route_u:
        refresh(plan, route_v)


@njit(cache=True, nogil=True)
def _cross(plan, a, b, joins_heads):  # type: ignore[no-untyped-def]
    """Cut behind a and b, and join the ends the other two ways."""
    size = len(plan.demand)
    if plan.route[a] == plan.route[b]:
        if plan.place[a] > plan.place[b]:
            a, b = b, a
        behind = plan.succ[b]
        count = plan.place[b] - plan.place[a]
        _take(plan, b, count, False, 0)
        _lay(plan, a, 0, count, behind, True)
        return
    depot_a, depot_b = size + plan.route[a], size + plan.route[b]
    length_a, length_b = plan.place[plan.pred[depot_a]], plan.place[plan.pred[depot_b]]
    tail_a, tail_b = length_a - plan.place[a], length_b - plan.place[b]
    if joins_heads:
        head_b = plan.place[b]
        _take(plan, b, head_b, False, 0)
        _take(plan, plan.pred[depot_a], tail_a, False, head_b)
        behind_b = plan.succ[b]
        _lay(plan, a, 0, head_b, depot_a, True)
        _lay(plan, depot_b, head_b, tail_a, behind_b, True)
    else:
        _take(plan, plan.succ[b], tail_b, True, 0)
        _take(plan, plan.succ[a], tail_a, True, tail_b)
        _lay(plan, a, 0, tail_b, depot_a, True)
        _lay(plan, b, tail_b, tail_a, depot_b, True)
