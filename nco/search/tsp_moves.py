"""2-opt and sequential 3-opt moves on an array tour, as numba kernels.

The tour is two arrays, ``order`` (the nodes in tour order) and ``position`` (each node's place in it), both int32 [N].
Its one primitive is the reversal of a stretch of positions, of which the shorter side is turned. Every move is one to
three reversals, and a reversal is its own inverse: the log of reversals is all that undoing takes.

Moves are found from a node along its neighbour list, as far as the partial gain stays positive (Lin and Kernighan
1973: some rotation of any improving sequential move has only positive partial gains, so nothing is lost but to the
length of the lists). Or-opt (Or 1976), a segment that goes elsewhere either way round, is a special case.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nco.search.space import distance

# Kinds of moves, by how they are put together from reversals.
NONE, TWO_OPT, THEN_TWO_OPT, SEGMENT_TURNED, SEGMENT_KEPT = range(5)

# No move takes more reversals.
MOST_REVERSALS = 3


@njit(cache=True, nogil=True)
def step(order, position, node, forward):  # type: ignore[no-untyped-def]
    """Return the node behind (forward) or before a node."""
    if forward:
        place = position[node] + 1
        return order[place if place < len(order) else 0]
    place = position[node] - 1
    return order[place if place >= 0 else len(order) - 1]


@njit(cache=True, nogil=True)
def reverse(order, position, first, last):  # type: ignore[no-untyped-def]
    """Turn round the stretch of positions first..last (cyclic), or else all the others: the same cycle."""
    size = len(order)
    length = last - first + 1
    if length <= 0:
        length += size
    if 2 * length > size:
        first, last = last + 1, first - 1
        if first == size:
            first = 0
        if last < 0:
            last = size - 1
        length = size - length
    for _ in range(length // 2):
        left, right = order[first], order[last]
        order[first], position[right] = right, first
        order[last], position[left] = left, last
        first += 1
        if first == size:
            first = 0
        last -= 1
        if last < 0:
            last = size - 1


@njit(cache=True, nogil=True)
def exchange(order, position, log, a, b, c, d):  # type: ignore[no-untyped-def]
    """Replace the edges (a, b) and (c, d) by (a, c) and (b, d); b lies on the same side of a as d of c.

    ``log`` is int32 [1 + L, 2], and its first entry the number of reversals in it; with L = 0 none is kept.
    """
    if step(order, position, a, True) == b:
        first, last = position[b], position[c]
    else:
        first, last = position[a], position[d]
    reverse(order, position, first, last)
    if len(log) > 1:
        log[0, 0] += 1
        log[log[0, 0], 0], log[log[0, 0], 1] = first, last


@njit(cache=True, nogil=True)
def undo(order, position, log):  # type: ignore[no-untyped-def]
    """Take back all that the log holds."""
    for entry in range(log[0, 0], 0, -1):
        reverse(order, position, log[entry, 0], log[entry, 1])
    log[0, 0] = 0


@njit(cache=True, nogil=True)
def find_move(space, neighbours, reach, order, position, tolerance, a, breadth, span):  # type: ignore[no-untyped-def]
    """Find an improving move that gives node a a new neighbour: the best of the first new neighbour that has any.

    The move takes out the edges (a, b), (c, d), (e, f) and puts in (a, c), (d, e), (f, b); without e and f it is a
    2-opt move. With the edge (a, b) gone the tour is a path from b to a, and a node's rank is its place on it.

    Parameters
    ----------
    space : Space
    neighbours : int32 [N, K]
    reach : float64 [N, K]
        Distances to the neighbours.
    order, position : int32 [N]
    tolerance : float
        A move must gain more than this.
    a : int
    breadth : int
        How many neighbours of d are tried as e.
    span : int
        Only moves whose cuts lie within so many positions of node a, so that reversals are short; N for all moves.

    Returns
    -------
    gain, kind, b, c, d, e, f
        ``kind`` is NONE if there is no such move.
    """
    size = len(order)
    gain, kind = tolerance, NONE
    best_c = best_d = best_e = best_f = a
    for forward in (True, False):
        b = step(order, position, a, forward)
        start = position[b]
        cut = distance(space, a, b)
        for k in range(neighbours.shape[1]):
            c = neighbours[a, k]
            first_gain = cut - reach[a, k]
            if first_gain <= 0.0 or kind != NONE:
                break
            rank_c = _rank(position, c, start, forward)
            if rank_c == 0 or span < rank_c < size - span:
                continue
            # d behind c: the path becomes b..c a..d, and closing it is a 2-opt move.
            if rank_c < size - 2:
                d = step(order, position, c, forward)
                open_gain = first_gain + distance(space, c, d)
                closed = open_gain - distance(space, b, d)
                if closed > gain:
                    gain, kind, best_c, best_d = closed, TWO_OPT, c, d
                for m in range(breadth):
                    e = neighbours[d, m]
                    next_gain = open_gain - reach[d, m]
                    if next_gain <= 0.0:
                        break
                    rank_e = _rank(position, e, start, forward)
                    if span < rank_e < size - span:
                        continue
                    if 0 < rank_e < rank_c:
                        f = step(order, position, e, forward)
                    elif rank_e > rank_c + 2:
                        f = step(order, position, e, not forward)
                    else:
                        continue
                    closed = next_gain + distance(space, e, f) - distance(space, f, b)
                    if closed > gain:
                        gain, kind, best_c, best_d, best_e, best_f = closed, THEN_TWO_OPT, c, d, e, f
            # d before c: c..a is a cycle that e and f must open; the segments c..e and f..a, or c..f and e..a,
            # change places, and the first two also turn round.
            d = step(order, position, c, not forward)
            open_gain = first_gain + distance(space, c, d)
            for m in range(breadth):
                e = neighbours[d, m]
                next_gain = open_gain - reach[d, m]
                if next_gain <= 0.0:
                    break
                rank_e = _rank(position, e, start, forward)
                if rank_e <= rank_c or span < rank_e < size - span:
                    continue
                if rank_e < size - 1:
                    f = step(order, position, e, forward)
                    closed = next_gain + distance(space, e, f) - distance(space, f, b)
                    if closed > gain:
                        gain, kind, best_c, best_d, best_e, best_f = closed, SEGMENT_TURNED, c, d, e, f
                f = step(order, position, e, not forward)
                closed = next_gain + distance(space, e, f) - distance(space, f, b)
                if closed > gain:
                    gain, kind, best_c, best_d, best_e, best_f = closed, SEGMENT_KEPT, c, d, e, f
        if kind != NONE:
            return gain, kind, b, best_c, best_d, best_e, best_f
    return 0.0, NONE, a, a, a, a, a


@njit(cache=True, nogil=True)
def _rank(position, node, start, forward):  # type: ignore[no-untyped-def]
    """Return how many steps lie between the position start and a node, in one direction."""
    steps = position[node] - start if forward else start - position[node]
    return steps if steps >= 0 else steps + len(position)


@njit(cache=True, nogil=True)
def make_move(order, position, log, kind, a, b, c, d, e, f):  # type: ignore[no-untyped-def]
    """Make a move of :func:`find_move`."""
    if kind == SEGMENT_TURNED:
        exchange(order, position, log, d, c, e, f)
        exchange(order, position, log, c, f, a, b)
    elif kind == SEGMENT_KEPT:
        exchange(order, position, log, d, c, a, b)
        exchange(order, position, log, d, a, e, f)
        exchange(order, position, log, a, f, c, b)
    else:
        exchange(order, position, log, a, b, c, d)
        if kind == THEN_TWO_OPT:
            exchange(order, position, log, d, b, e, f)


@njit(cache=True, nogil=True)
def double_bridge(space, order, position, log, cuts):  # type: ignore[no-untyped-def]
    """Swap three neighbouring segments A B C into C B A: the double bridge (Martin, Otto and Felten 1991).

    Parameters
    ----------
    cuts : int64 [4]
        Four different positions in cyclic order; A begins behind the first, and C ends with the last.

    Returns
    -------
    change : float
        By how much the tour has become longer.
    ends : int32 [8]
        The nodes whose tour edges have changed.
    """
    ends = np.empty(8, np.int32)
    for i in range(4):
        ends[2 * i] = order[cuts[i]]
        ends[2 * i + 1] = step(order, position, ends[2 * i], True)
    before, a0, a1, b0, b1, c0, c1, behind = ends
    change = (
        distance(space, before, c0) + distance(space, c1, b0) + distance(space, b1, a0) + distance(space, a1, behind)
    )
    for i in range(4):
        change -= distance(space, ends[2 * i], ends[2 * i + 1])
    exchange(order, position, log, before, a0, c1, behind)
    exchange(order, position, log, before, c1, c0, b1)
    exchange(order, position, log, c1, b1, b0, a1)
    exchange(order, position, log, b1, a1, a0, behind)
    return change, ends
