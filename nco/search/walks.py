"""The walks of sampled construction as numba kernels; see sampling.

Neighbours come in the order of falling weights, with the running sums of these. The greedy step is so the first
neighbour that may be chosen. A drawn step proposes a neighbour by a binary search in the sums, and after a few that may
not be chosen it weighs all of them: rejection does not change the distribution.

A walk keeps its open nodes in a list, in which a visited node is overwritten by the last one; ``place`` int32 [N] is
where a node stands in it, and -1 for visited ones. ``state`` uint64 [1] holds the random numbers of a trajectory.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nco.search.tsp_descent import draw, draw_share

# So many proposals before all choices are weighed.
_PROPOSALS = 4


@njit(cache=True, nogil=True)
def walk_tours(neighbours, near, sums, background, drawn, starts, states, nodes):  # type: ignore[no-untyped-def]
    """Walk a TSP's trajectories into ``nodes``, int32 [h, N]; ``starts`` is int64 [h], ``states`` uint64 [h, 1]."""
    size = len(neighbours)
    no_demand = np.zeros(size, np.int64)
    open_nodes, place = np.empty(size, np.int32), np.empty(size, np.int32)
    for row in range(len(nodes)):
        _open_all(open_nodes, place, 0)
        lowest = 0
        node = starts[row]
        for step in range(size):
            if step > 0:
                count = size - step
                while place[lowest] < 0:
                    lowest += 1
                node = _next(
                    *(neighbours[node], near[node], sums[node], background, 0.0, no_demand, 0),
                    *(open_nodes, place, count, lowest, states[row], drawn),
                )
            nodes[row, step] = node
            _close(open_nodes, place, size - step, node)


@njit(cache=True, nogil=True)
def walk_routes(
    neighbours,
    near,
    sums,
    first,
    first_weights,
    first_sums,
    to_depot,
    background,
    demand,
    capacity,
    drawn,
    drawn_at_depot,
    states,
    nodes,
    lengths,
):  # type: ignore[no-untyped-def]
    """Walk a CVRP's trajectories into ``nodes``, int32 [h, 2N] of zeros, and their lengths into ``lengths``, int64 [h].

    ``first`` holds the customers as they follow the depot, in the order of falling weights.

    A length counts the first and the last zero. The depot is left only for a customer, so no route is empty.
    """
    size = len(neighbours)
    open_nodes, place = np.empty(size, np.int32), np.empty(size, np.int32)
    for row in range(len(nodes)):
        _open_all(open_nodes, place, 1)
        count, step, node, room, lowest, hottest = size - 1, 0, 0, capacity, 1, 0
        while count > 0:
            while place[lowest] < 0:
                lowest += 1
            if node == 0:
                while place[first[hottest]] < 0:
                    hottest += 1
                node = first[hottest]
                if _tosses(states[row], drawn_at_depot):
                    node = _draw_first(first, first_weights, first_sums, place, hottest, states[row])
            else:
                node = _next(
                    *(neighbours[node], near[node], sums[node], background, to_depot[node], demand, room),
                    *(open_nodes, place, count, lowest, states[row], drawn),
                )
            step += 1
            nodes[row, step] = node
            if node == 0:
                room = capacity
            else:
                room -= demand[node]
                _close(open_nodes, place, count, node)
                count -= 1
        lengths[row] = step + 2 if node != 0 else step + 1


@njit(cache=True, nogil=True)
def plane_lengths(coords, nodes):  # type: ignore[no-untyped-def]
    """Return the lengths of closed tours, int64 [h, L], as float64 [h]."""
    lengths = np.zeros(len(nodes))
    for row in range(len(nodes)):
        for step in range(nodes.shape[1]):
            tail, head = nodes[row, step - 1], nodes[row, step]
            if tail != head:
                dx, dy = coords[tail, 0] - coords[head, 0], coords[tail, 1] - coords[head, 1]
                lengths[row] += np.sqrt(dx * dx + dy * dy)
    return lengths


@njit(cache=True, nogil=True)
def _open_all(open_nodes, place, first):  # type: ignore[no-untyped-def]
    """Open all nodes from ``first`` on."""
    place[:] = -1
    for node in range(first, len(place)):
        open_nodes[node - first] = node
        place[node] = node - first


@njit(cache=True, nogil=True)
def _close(open_nodes, place, count, node):  # type: ignore[no-untyped-def]
    """Take a node out of the ``count`` open ones."""
    last = open_nodes[count - 1]
    open_nodes[place[node]] = last
    place[last] = place[node]
    place[node] = -1


@njit(cache=True, nogil=True)
def _tosses(state, drawn):  # type: ignore[no-untyped-def]
    """Toss whether a step is drawn."""
    return drawn >= 1.0 or (drawn > 0.0 and draw_share(state) <= drawn)


@njit(cache=True, nogil=True)
def _next(neighbours, near, sums, background, depot, demand, room, open_nodes, place, count, lowest, state, drawn):  # type: ignore[no-untyped-def]
    """Return the node behind a customer, or 0 for the depot, whose weight is ``depot``.

    ``lowest`` is the lowest of the ``count`` open nodes, and ``drawn`` the probability of drawing.
    """
    if not _tosses(state, drawn):
        return _hottest_next(neighbours, near, background, depot, demand, room, place, lowest)
    for _ in range(_PROPOSALS):
        point = (1.0 - draw_share(state)) * (depot + sums[-1] + background * count)
        if point < depot:
            return np.int32(0)
        point -= depot
        proposed_near = point < sums[-1]
        node = neighbours[_index(sums, point)] if proposed_near else open_nodes[draw(state, count)]
        if place[node] >= 0 and demand[node] <= room and (proposed_near or not _contains(neighbours, node)):
            return node
    return _weigh_next(neighbours, near, background, depot, demand, room, open_nodes, place, count, state)


@njit(cache=True, nogil=True)
def _index(sums, point):  # type: ignore[no-untyped-def]
    """Return the first index whose running sum is above a point, which lies below the last sum."""
    low, high = 0, len(sums) - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > point:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def _weigh_next(neighbours, near, background, depot, demand, room, open_nodes, place, count, state):  # type: ignore[no-untyped-def]
    """Draw the next node with a look at all that may be chosen."""
    total = depot
    for k in range(len(neighbours)):
        if place[neighbours[k]] >= 0 and demand[neighbours[k]] <= room:
            total += near[k]
    point = (1.0 - draw_share(state)) * (total + background * count)
    if point >= total:
        # A proposal of the background once more. If it fails, those that it may propose are counted: this always ends.
        node = open_nodes[draw(state, count)]
        if demand[node] <= room and not _contains(neighbours, node):
            return node
        others = _others(neighbours, demand, room, open_nodes, count)
        point = (1.0 - draw_share(state)) * (total + background * len(others))
        if point >= total and len(others) > 0:
            return others[draw(state, len(others))]
    chosen = np.int32(0)
    point -= depot
    for k in range(len(neighbours)):
        if point < 0.0:
            break
        if place[neighbours[k]] >= 0 and demand[neighbours[k]] <= room:
            chosen = neighbours[k]
            point -= near[k]
    return chosen


@njit(cache=True, nogil=True)
def _others(neighbours, demand, room, open_nodes, count):  # type: ignore[no-untyped-def]
    """Return the open nodes that fit and are no neighbours."""
    others = np.empty(count, np.int32)
    found = 0
    for index in range(count):
        node = open_nodes[index]
        if demand[node] <= room and not _contains(neighbours, node):
            others[found] = node
            found += 1
    return others[:found]


@njit(cache=True, nogil=True)
def _hottest_next(neighbours, near, background, depot, demand, room, place, lowest):  # type: ignore[no-untyped-def]
    """Return the node of the largest weight, the lowest of those that are tied."""
    best, most = np.int32(0), depot
    for k in range(len(neighbours)):
        if place[neighbours[k]] >= 0 and demand[neighbours[k]] <= room:
            if near[k] > most:
                best, most = neighbours[k], near[k]
            break
    if most > background or (most == background and best <= lowest):
        return best
    for node in range(lowest, len(place)):
        if place[node] >= 0 and demand[node] <= room and not _contains(neighbours, node):
            return np.int32(node) if background > most or node < best else best
    return best


@njit(cache=True, nogil=True)
def _contains(neighbours, node):  # type: ignore[no-untyped-def]
    for other in neighbours:  # noqa: SIM110 - numba compiles the loop
        if other == node:
            return True
    return False


@njit(cache=True, nogil=True)
def _draw_first(first, weights, sums, place, hottest, state):  # type: ignore[no-untyped-def]
    """Draw the first customer of a route; every open one fits, and the hottest is at a known index."""
    for _ in range(_PROPOSALS):
        node = first[_index(sums, (1.0 - draw_share(state)) * sums[-1])]
        if place[node] >= 0:
            return node
    total = 0.0
    for k in range(hottest, len(first)):
        if place[first[k]] >= 0:
            total += weights[k]
    point = (1.0 - draw_share(state)) * total
    chosen = first[hottest]
    for k in range(hottest, len(first)):
        if place[first[k]] >= 0:
            chosen = first[k]
            point -= weights[k]
            if point < 0.0:
                break
    return chosen
