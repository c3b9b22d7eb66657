"""Insertion and nearest-neighbour heuristics in the Euclidean plane, as numba kernels.

They scan plain arrays: exact, quadratic in time and linear in memory. Random insertion of a TSP is exact while the tour
has at most 10,000 nodes; later nodes are tried only next to their nearest nodes on it, in O(N log N).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nco.geometry import k_nearest

# Random insertion of a TSP tries all positions of a tour of so many nodes, and beyond those at so many nearest nodes.
EXACT_NODES = 10_000
NEAR_NODES = 12

RANDOM, NEAREST, FARTHEST = 0, 1, 2


def random_insertion(
    coords: NDArray[np.float64],
    rng: np.random.Generator,
    demand: NDArray[np.int64] | None = None,
    capacity: int | None = None,
) -> NDArray[np.int64]:
    """Insert nodes in random order, each where it adds least to the length.

    Parameters
    ----------
    coords : float64 [N, 2]
    rng : numpy.random.Generator
    demand, capacity : int64 [N], int, optional
        Of a CVRP, whose depot is node 0: a customer goes only onto a route that has room, or onto a new one.

    Returns
    -------
    int64 [L]
        A giant tour.
    """
    if demand is None or capacity is None:
        order = rng.permutation(len(coords))
        if len(coords) > EXACT_NODES:
            return order[_insertion_near(np.ascontiguousarray(coords[order]))]
        return _insertion_tour(np.ascontiguousarray(coords), order, RANDOM)
    order = rng.permutation(len(coords) - 1) + 1
    return _insertion_routes(np.ascontiguousarray(coords), order, np.asarray(demand), int(capacity))


def nearest_insertion(coords: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Start from a random node and insert the node nearest to the tour, where it adds least; int64 [N]."""
    return _insertion_tour(np.ascontiguousarray(coords), rng.permutation(len(coords)), NEAREST)


def farthest_insertion(coords: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Start from a random node and insert the node farthest from the tour, where it adds least; int64 [N]."""
    return _insertion_tour(np.ascontiguousarray(coords), rng.permutation(len(coords)), FARTHEST)


def nearest_neighbour(
    coords: NDArray[np.float64],
    start: int = 0,
    demand: NDArray[np.int64] | None = None,
    capacity: int | None = None,
) -> NDArray[np.int64]:
    """Go on to the nearest open node; in a CVRP to the nearest that fits, and home when none does.

    Parameters
    ----------
    coords : float64 [N, 2]
    start : int
        The first node of a TSP; a CVRP starts from its depot.
    demand, capacity : int64 [N], int, optional
        Of a CVRP.

    Returns
    -------
    int64 [L]
        A giant tour.
    """
    if demand is None or capacity is None:
        return _nearest_tour(np.ascontiguousarray(coords), start)
    return _nearest_routes(np.ascontiguousarray(coords), np.asarray(demand), int(capacity))


def _insertion_near(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Insert points in their order, int64 [N]; from EXACT_NODES on, each next to one of its nearest on the tour.

    Whenever the tour has doubled, the neighbours of the next batch are looked up among all points up to its end. Most
    of them come before the batch; those that come later than the point itself are passed over.
    """
    tour = _insertion_tour(points[:EXACT_NODES], np.arange(EXACT_NODES), RANDOM)
    succ = np.empty(len(points), np.int64)
    pred = np.empty(len(points), np.int64)
    succ[tour], pred[tour] = np.roll(tour, -1), np.roll(tour, 1)
    first = EXACT_NODES
    while first < len(points):
        last = min(2 * first, len(points))
        near = k_nearest(points[:last], NEAR_NODES + 1, points[first:last])
        _insert_batch(points, succ, pred, near, first)
        first = last
    return _walk(succ, 0, len(points))


@njit(cache=True, nogil=True)
def _insert_batch(points, succ, pred, near, first):  # type: ignore[no-untyped-def]
    """Insert the points from ``first`` on, one for each row of ``near``, int64 [M, K]."""
    for row in range(len(near)):
        node = first + row
        left, least = -1, np.inf
        for other in near[row]:
            if other < node:
                left, least = _cheaper(points, pred[other], other, node, left, least)
                left, least = _cheaper(points, other, succ[other], node, left, least)
        if left < 0:  # no neighbour is on the tour yet
            for other in range(node):
                left, least = _cheaper(points, other, succ[other], node, left, least)
        right = succ[left]
        succ[left], pred[node], succ[node], pred[right] = node, left, right, node


@njit(cache=True, nogil=True)
def _cheaper(points, left, right, node, best, least):  # type: ignore[no-untyped-def]
    """Return the better of an edge, named by its left end, and the best so far, with what it adds."""
    added = 0.0
    for tail, head, sign in ((left, node, 1.0), (node, right, 1.0), (left, right, -1.0)):
        dx, dy = points[tail, 0] - points[head, 0], points[tail, 1] - points[head, 1]
        added += sign * np.sqrt(dx * dx + dy * dy)
    return (left, added) if added < least else (best, least)


@njit(cache=True, nogil=True)
def _cheapest(x, y, ax, ay, bx, by, length, count):  # type: ignore[no-untyped-def]
    """Return which of the edges (ax, ay) - (bx, by) a point lengthens least, and by how much."""
    best, least = 0, np.inf
    for edge in range(count):
        added = (
            np.sqrt((x - ax[edge]) ** 2 + (y - ay[edge]) ** 2)
            + np.sqrt((x - bx[edge]) ** 2 + (y - by[edge]) ** 2)
            - length[edge]
        )
        if added < least:
            best, least = edge, added
    return best, least


@njit(cache=True, nogil=True)
def _walk(succ, start, count):  # type: ignore[no-untyped-def]
    tour = np.empty(count, np.int64)
    node = start
    for place in range(count):
        tour[place] = node
        node = succ[node]
    return tour


@njit(cache=True, nogil=True)
def _insertion_tour(coords, order, rule):  # type: ignore[no-untyped-def]
    """Insert all nodes; ``order`` is the order of a random insertion, and its first node the start of the others.

    Edge e leaves the e-th inserted node, so edges are found by a scan of plain arrays.
    """
    size = len(coords)
    ax, ay, bx, by = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    length = np.zeros(size)
    node_of = np.empty(size, np.int64)
    succ = np.empty(size, np.int64)
    rest = order.copy()
    distance = np.full(size, np.inf)
    first = rest[0]
    node_of[0] = first
    succ[first] = first
    ax[0], ay[0] = coords[first]
    bx[0], by[0] = coords[first]
    last = first
    for count in range(1, size):
        if rule != RANDOM:
            # Distances of the open nodes to the tour; the chosen one moves to the front.
            chosen = count
            for place in range(count, size):
                node = rest[place]
                far = (coords[node, 0] - coords[last, 0]) ** 2 + (coords[node, 1] - coords[last, 1]) ** 2
                distance[node] = min(distance[node], far)
                gain = distance[node] - distance[rest[chosen]]
                if (rule == NEAREST and gain < 0) or (rule == FARTHEST and gain > 0):
                    chosen = place
            rest[count], rest[chosen] = rest[chosen], rest[count]
        node = rest[count]
        x, y = coords[node]
        edge, _ = _cheapest(x, y, ax, ay, bx, by, length, count)
        left = node_of[edge]
        node_of[count] = node
        succ[node] = succ[left]
        succ[left] = node
        ax[count], ay[count], bx[count], by[count] = x, y, bx[edge], by[edge]
        length[count] = np.sqrt((x - bx[count]) ** 2 + (y - by[count]) ** 2)
        bx[edge], by[edge] = x, y
        length[edge] = np.sqrt((x - ax[edge]) ** 2 + (y - ay[edge]) ** 2)
        last = node
    return _walk(succ, first, size)


@njit(cache=True, nogil=True)
def _insertion_routes(coords, order, demand, capacity):  # type: ignore[no-untyped-def]
    """Insert all customers; every route is a cycle through a token of its own, N + its number."""
    size = len(coords)
    most = 2 * size
    ax, ay, bx, by = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    length = np.zeros(most)
    token_of = np.empty(most, np.int64)
    route_of = np.empty(most, np.int64)
    succ = np.empty(most, np.int64)
    load = np.zeros(size, np.int64)
    edges, routes = 0, 0
    home_x, home_y = coords[0]
    smallest = demand[order]  # the smallest demand from each turn on
    for turn in range(len(order) - 2, -1, -1):
        smallest[turn] = min(smallest[turn], smallest[turn + 1])
    for turn in range(len(order)):
        customer = order[turn]
        x, y = coords[customer]
        best, least = -1, np.inf
        for edge in range(edges):
            if load[route_of[edge]] + demand[customer] <= capacity:
                added = (
                    np.sqrt((x - ax[edge]) ** 2 + (y - ay[edge]) ** 2)
                    + np.sqrt((x - bx[edge]) ** 2 + (y - by[edge]) ** 2)
                    - length[edge]
                )
                if added < least:
                    best, least = edge, added
        if best < 0:
            # Any route with room is at least as good as a new one, by the triangle inequality.
            best = edges
            token_of[best], route_of[best] = size + routes, routes
            succ[size + routes] = size + routes
            ax[best], ay[best], bx[best], by[best] = home_x, home_y, home_x, home_y
            edges += 1
            routes += 1
        left, route = token_of[best], route_of[best]
        succ[customer] = succ[left]
        succ[left] = customer
        load[route] += demand[customer]
        token_of[edges], route_of[edges] = customer, route
        ax[edges], ay[edges], bx[edges], by[edges] = x, y, bx[best], by[best]
        length[edges] = np.sqrt((x - bx[best]) ** 2 + (y - by[best]) ** 2)
        bx[best], by[best] = x, y
        length[best] = np.sqrt((x - ax[best]) ** 2 + (y - ay[best]) ** 2)
        edges += 1
        if turn + 1 < len(order) and load[route] + smallest[turn + 1] > capacity:
            kept = 0  # nothing fits onto this route any more: its edges leave the scan
            for edge in range(edges):
                if route_of[edge] != route:
                    ax[kept], ay[kept], bx[kept], by[kept] = ax[edge], ay[edge], bx[edge], by[edge]
                    length[kept], token_of[kept], route_of[kept] = length[edge], token_of[edge], route_of[edge]
                    kept += 1
            edges = kept
    tour = np.zeros(size + routes, np.int64)
    place = 0
    for route in range(routes):
        place += 1
        token = succ[size + route]
        while token < size:
            tour[place] = token
            place += 1
            token = succ[token]
    return tour


@njit(cache=True, nogil=True)
def _nearest_tour(coords, start):  # type: ignore[no-untyped-def]
    size = len(coords)
    rest = np.arange(size)
    rest[0], rest[start] = start, 0
    for place in range(1, size):
        x, y = coords[rest[place - 1]]
        best, least = place, np.inf
        for other in range(place, size):
            node = rest[other]
            far = (coords[node, 0] - x) ** 2 + (coords[node, 1] - y) ** 2
            if far < least:
                best, least = other, far
        rest[place], rest[best] = rest[best], rest[place]
    return rest


@njit(cache=True, nogil=True)
def _nearest_routes(coords, demand, capacity):  # type: ignore[no-untyped-def]
    size = len(coords)
    rest = np.arange(1, size)
    tour = np.zeros(2 * size, np.int64)
    place, room, served, here = 1, capacity, 0, 0
    while served < size - 1:
        best, least = -1, np.inf
        for other in range(served, size - 1):
            node = rest[other]
            if demand[node] <= room:
                far = (coords[node, 0] - coords[here, 0]) ** 2 + (coords[node, 1] - coords[here, 1]) ** 2
                if far < least:
                    best, least = other, far
        if best < 0:
            here, room = 0, capacity
        else:
            here = rest[best]
            rest[best], rest[served] = rest[served], here
            room -= demand[here]
            served += 1
        tour[place] = here
        place += 1
    return tour[: place + 1]
