"""The k nearest open points of a place, exactly, while points are closed one by one: many sets of points side by side.

Each set is a static k-d tree whose nodes count their open points. Closing a point walks from its leaf to the root; a
search passes over subtrees without open points, so it costs O(k + log N) however few are left. Nothing is rebuilt, and
memory is linear in the number of points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Points of a leaf: searches scan them one by one.
LEAF = 8


class OpenPoints(NamedTuple):
    """R trees over up to M points each; build them with :func:`open_points`.

    A tree has L = 2^D leaves and its nodes are numbered from 1 as in a heap: node i has the children 2i and 2i + 1.

    Attributes
    ----------
    points : float64 [R, M, 2]
        In the order of the leaves; a point's index there is its *place*.
    number : int32 [R, M]
        The number of the point at each place.
    place : int32 [R, M]
        The place of the point of each number.
    is_open : bool [R, M]
        By place.
    begin : int32 [R, L + 1]
        The places where leaves begin.
    box : float64 [R, 2 L, 4]
        Lowest and highest x, lowest and highest y of each node's points.
    still_open : int32 [R, 2 L]
        Open points of each node.
    """

    points: NDArray[np.float64]
    number: NDArray[np.int32]
    place: NDArray[np.int32]
    is_open: NDArray[np.bool_]
    begin: NDArray[np.int32]
    box: NDArray[np.float64]
    still_open: NDArray[np.int32]


def open_points(points: NDArray[np.floating], sizes: NDArray[np.int64] | None = None) -> OpenPoints:
    """Build the trees of R sets of points, all of them open.

    Parameters
    ----------
    points : float [R, M, 2]
        Finite.
    sizes : int64 [R], optional
        How many of each row's points there are, the rest being padding; by default all.
    """
    rows, most = points.shape[:2]
    if sizes is None:
        sizes = np.full(rows, most, dtype=np.int64)
    leaves = 1
    while leaves * LEAF < most:
        leaves *= 2
    number = np.empty((rows, most), np.int32)
    number[:] = np.arange(most, dtype=np.int32)
    trees = OpenPoints(
        np.ascontiguousarray(points, dtype=np.float64).copy(),
        number,
        np.zeros((rows, most), np.int32),
        np.zeros((rows, most), np.bool_),
        np.zeros((rows, leaves + 1), np.int32),
        np.empty((rows, 2 * leaves, 4)),
        np.zeros((rows, 2 * leaves), np.int32),
    )
    _build(trees, sizes)
    return trees


def find_nearest(trees: OpenPoints, at: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the k nearest open points of a place in each row, nearest first, ties to the lower number.

    Parameters
    ----------
    at : float64 [R, 2]

    Returns
    -------
    int64 [R, k]
        Numbers of points; -1 where fewer are open.
    """
    found = np.empty((len(at), k), np.int64)
    _find_all(trees, at, found)
    return found


@njit(cache=True, nogil=True)
def _find_all(trees, at, found):  # type: ignore[no-untyped-def]
    for row in range(len(at)):
        nearest(trees, row, at[row, 0], at[row, 1], found[row])


@njit(cache=True, nogil=True)
def close(trees, row, number):  # type: ignore[no-untyped-def]
    """Close an open point of a row."""
    place = trees.place[row, number]
    trees.is_open[row, place] = False
    begin = trees.begin[row]
    leaves = len(begin) - 1
    node = leaves + np.searchsorted(begin, place, side="right") - 1
    while node:
        trees.still_open[row, node] -= 1
        node //= 2


@njit(cache=True, nogil=True)
def nearest(trees, row, x, y, found):  # type: ignore[no-untyped-def]
    """Write the nearest open points of (x, y), nearest first, ties to the lower number, and -1 where there are fewer.

    Returns
    -------
    int
        How many there are.
    """
    leaves = trees.begin.shape[1] - 1
    points, is_open, number = trees.points[row], trees.is_open[row], trees.number[row]
    begin, still_open, box = trees.begin[row], trees.still_open[row], trees.box[row]
    k = min(len(found), still_open[1])
    found[k:] = -1
    if k == 0:
        return 0
    # A heap of the best so far, the worst of them on top.
    distance = np.empty(k)
    held = 0
    stack = np.empty(64, np.int64)
    stack_distance = np.empty(64)
    stack[0], stack_distance[0], top = 1, 0.0, 1
    while top:
        top -= 1
        node = stack[top]
        if held == k and stack_distance[top] > distance[0]:
            continue
        if node >= leaves:
            for place in range(begin[node - leaves], begin[node - leaves + 1]):
                if is_open[place]:
                    dx, dy = points[place, 0] - x, points[place, 1] - y
                    held = _offer(distance, found, held, k, dx * dx + dy * dy, number[place])
            continue
        left, right = 2 * node, 2 * node + 1
        to_left, to_right = _box_distance(box, left, x, y), _box_distance(box, right, x, y)
        if to_right < to_left:
            left, right, to_left, to_right = right, left, to_right, to_left
        if still_open[right]:
            stack[top], stack_distance[top] = right, to_right
            top += 1
        if still_open[left]:
            stack[top], stack_distance[top] = left, to_left
            top += 1
    for last in range(k - 1, 0, -1):
        d, n = distance[last], found[last]
        distance[last], found[last] = distance[0], found[0]
        _sift(distance, found, last, d, n)
    return k


@njit(cache=True, nogil=True)
def _box_distance(box, node, x, y):  # type: ignore[no-untyped-def]
    """Return the squared distance to a node's box; no point of the node is rounded to a smaller one."""
    dx = max(box[node, 0] - x, x - box[node, 1], 0.0)
    dy = max(box[node, 2] - y, y - box[node, 3], 0.0)
    return dx * dx + dy * dy


@njit(cache=True, nogil=True)
def _offer(distance, found, held, k, d, n):  # type: ignore[no-untyped-def]
    """Put a point on the heap of the k best, if it is one of them; return how many the heap holds."""
    if held == k:
        if d < distance[0] or (d == distance[0] and n < found[0]):
            _sift(distance, found, k, d, n)
        return held
    child = held
    while child:
        parent = (child - 1) // 2
        if d < distance[parent] or (d == distance[parent] and n < found[parent]):
            break
        distance[child], found[child] = distance[parent], found[parent]
        child = parent
    distance[child], found[child] = d, n
    return held + 1


@njit(cache=True, nogil=True)
def _sift(distance, found, size, d, n):  # type: ignore[no-untyped-def]
    """Replace the top of a heap of some size and let it sink."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            distance[other] > distance[child] or (distance[other] == distance[child] and found[other] > found[child])
        ):
            child = other
        if d > distance[child] or (d == distance[child] and n > found[child]):
            break
        distance[hole], found[hole] = distance[child], found[child]
        hole = child
    distance[hole], found[hole] = d, n


@njit(cache=True, nogil=True)
def _build(trees, sizes):  # type: ignore[no-untyped-def]
    leaves = trees.begin.shape[1] - 1
    low, high = np.empty(2 * leaves, np.int64), np.empty(2 * leaves, np.int64)
    for row in range(len(sizes)):
        points, number, box = trees.points[row], trees.number[row], trees.box[row]
        low[1], high[1] = 0, sizes[row]
        trees.is_open[row, : sizes[row]] = True
        for node in range(1, 2 * leaves):
            begin, end = low[node], high[node]
            trees.still_open[row, node] = end - begin
            _bound(points, begin, end, box[node])
            if node >= leaves:
                trees.begin[row, node - leaves + 1] = end
                continue
            middle = (begin + end) // 2
            axis = 0 if box[node, 1] - box[node, 0] >= box[node, 3] - box[node, 2] else 1
            _select(points, number, axis, begin, end - 1, middle)
            low[2 * node], high[2 * node] = begin, middle
            low[2 * node + 1], high[2 * node + 1] = middle, end
        for place in range(sizes[row]):
            trees.place[row, number[place]] = place


@njit(cache=True, nogil=True)
def _bound(points, begin, end, box):  # type: ignore[no-untyped-def]
    box[0], box[1], box[2], box[3] = np.inf, -np.inf, np.inf, -np.inf
    for place in range(begin, end):
        x, y = points[place, 0], points[place, 1]
        box[0], box[1] = min(box[0], x), max(box[1], x)
        box[2], box[3] = min(box[2], y), max(box[3], y)


@njit(cache=True, nogil=True)
def _select(points, number, axis, low, high, middle):  # type: ignore[no-untyped-def]
    """Order places low..high so that none before the middle is greater than any from there on (quickselect)."""
    while low < high:
        pivot = points[(low + high) // 2, axis]
        i, j = low, high
        while i <= j:
            while points[i, axis] < pivot:
                i += 1
            while points[j, axis] > pivot:
                j -= 1
            if i <= j:
                for column in range(2):
                    kept = points[i, column]
                    points[i, column] = points[j, column]
                    points[j, column] = kept
                kept_number = number[i]
                number[i] = number[j]
                number[j] = kept_number
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return
