"""The savings heuristic of Clarke and Wright (1964) for the CVRP, on neighbour lists, as numba kernels."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nco.geometry import k_nearest

NEIGHBOURS = 40


def savings(
    coords: NDArray[np.float64], demand: NDArray[np.int64], capacity: int, neighbours: int = NEIGHBOURS
) -> NDArray[np.int64]:
    """Start with a route for every customer and join ends of routes, the largest saving first.

    Joining i and j saves ``d(i, 0) + d(0, j) - d(i, j)``. Only pairs are tried of which one is among the nearest
    customers of the other, so that time and memory are O(N log N) for a constant number of neighbours.

    Parameters
    ----------
    coords : float64 [N, 2]
        The depot is node 0.
    demand : int64 [N]
    capacity : int
    neighbours : int
        Nearest customers of each customer.

    Returns
    -------
    int64 [L]
        A giant tour.
    """
    count = len(coords)
    order = np.zeros(0, dtype=np.int64)
    tail = head = order
    if count > 2:
        near = k_nearest(coords[1:], neighbours) + 1
        tail = np.repeat(np.arange(1, count), near.shape[1])
        head = near.ravel()
        # A pair of mutual neighbours is there twice; its second copy finds both on one route.
        radius = np.linalg.norm(coords - coords[0], axis=1)
        saved = radius[tail] + radius[head] - np.linalg.norm(coords[tail] - coords[head], axis=1)
        order = np.argsort(-saved, kind="stable")
        order = order[saved[order] > 0]
    return _joined(tail[order], head[order], np.asarray(demand, dtype=np.int64), int(capacity))


@njit(cache=True, nogil=True)
def _joined(tail, head, demand, capacity):  # type: ignore[no-untyped-def]
    """Join routes at pairs of customers in the given order; return a giant tour, int64 [L]."""
    count = len(demand)
    # The neighbours of a customer on its route, 0 for the depot; the ends of a route know each other.
    links = np.zeros((count, 2), np.int64)
    other_end = np.arange(count)
    load = demand.copy()
    routes = count - 1
    for pair in range(len(tail)):
        left, right = tail[pair], head[pair]
        if links[left, 1] != 0 or links[right, 1] != 0 or other_end[left] == right:
            continue
        if load[left] + load[right] > capacity:
            continue
        first, last = other_end[left], other_end[right]
        links[left, 1 if links[left, 0] != 0 else 0] = right
        links[right, 1 if links[right, 0] != 0 else 0] = left
        load[first] = load[last] = load[left] + load[right]
        other_end[first], other_end[last] = last, first
        routes -= 1
    tour = np.zeros(count + max(routes, 1), np.int64)
    place = 1
    seen = np.zeros(count, np.bool_)
    for start in range(1, count):
        if seen[start] or links[start, 1] != 0:
            continue
        before, node = 0, start
        while node != 0:
            tour[place] = node
            seen[node] = True
            place += 1
            onward = links[node, 0] if links[node, 0] != before else links[node, 1]
            before, node = node, onward
        place += 1
    return tour
