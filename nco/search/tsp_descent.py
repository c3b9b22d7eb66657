"""Descent from a queue of nodes, and kicks with their repair, as numba kernels; see tsp_local_search.

The arrays of a search: ``queue`` int32 [N] is a ring buffer of the nodes to examine, ``waiting`` int64 [2] where it
begins and how many it holds, ``queued`` bool [N] which they are; the others are those of tsp_moves.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nco.search.space import distance
from nco.search.tsp_moves import MOST_REVERSALS, NONE, double_bridge, find_move, make_move, undo

# The cuts of a double bridge lie within this many positions.
KICK_WINDOW = 100
# How many neighbours are tried for the second new edge while repairing a kick; a descent without kicks tries all.
KICK_BREADTH = 5
# The repair of a kick cuts within so many positions: long reversals would take nearly all the time on large tours.
KICK_SPAN = 1_000


@njit(cache=True, nogil=True)
def neighbour_distances(space, neighbours):  # type: ignore[no-untyped-def]
    """Return the distances to the neighbours."""
    reach = np.empty(neighbours.shape)
    for node in range(neighbours.shape[0]):
        for k in range(neighbours.shape[1]):
            reach[node, k] = distance(space, node, neighbours[node, k])
    return reach


@njit(cache=True, nogil=True)
def tour_length(space, order):  # type: ignore[no-untyped-def]
    """Return the length of a closed tour."""
    total = 0.0
    for place in range(len(order)):
        total += distance(space, order[place - 1], order[place])
    return total


@njit(cache=True, nogil=True)
def push(queue, queued, waiting, node):  # type: ignore[no-untyped-def]
    """Ask for a node to be examined. ``waiting`` is where the ring buffer begins and how many it holds."""
    if queued[node]:
        return
    queued[node] = True
    place = waiting[0] + waiting[1]
    queue[place if place < len(queue) else place - len(queue)] = node
    waiting[1] += 1


@njit(cache=True, nogil=True)
def enqueue(nodes, queue, queued, waiting):  # type: ignore[no-untyped-def]
    """Ask for nodes to be examined, in their order."""
    for node in nodes:
        push(queue, queued, waiting, node)


@njit(cache=True, nogil=True)
def clear(queued, waiting):  # type: ignore[no-untyped-def]
    """Empty the queue."""
    queued[:] = False
    waiting[:] = 0


@njit(cache=True, nogil=True)
def settle(space, neighbours, reach, order, position, queue, queued, waiting, tolerance, log, breadth, span, most):  # type: ignore[no-untyped-def]
    """Examine the queue until it is empty, ``most`` moves are made or the log is full; return what was gained."""
    total = 0.0
    for _ in range(most):
        kind = NONE
        if len(log) > 1 and log[0, 0] + MOST_REVERSALS >= len(log):
            break
        while waiting[1] > 0 and kind == NONE:
            a = queue[waiting[0]]
            waiting[0] = waiting[0] + 1 if waiting[0] + 1 < len(queue) else 0
            waiting[1] -= 1
            queued[a] = False
            gain, kind, b, c, d, e, f = find_move(
                space, neighbours, reach, order, position, tolerance, a, min(breadth, neighbours.shape[1]), span
            )
        if kind == NONE:
            break
        make_move(order, position, log, kind, a, b, c, d, e, f)
        for end in (a, b, c, d, e, f):  # e and f of a 2-opt move are a
            push(queue, queued, waiting, end)
        total += gain
    return total


@njit(cache=True, nogil=True)
def perturb(
    space, neighbours, reach, order, position, queue, queued, waiting, tolerance, log, state, steps, temperature
):  # type: ignore[no-untyped-def]
    """Make kicks, repair each, and undo what is not accepted; return the change of the length."""
    total = 0.0
    cuts = np.empty(4, np.int64)
    for _ in range(steps):
        log[0, 0] = 0
        draw_cuts(state, len(order), cuts)
        change, ends = double_bridge(space, order, position, log, cuts)
        for end in ends:
            push(queue, queued, waiting, end)
        change -= settle(
            *(space, neighbours, reach, order, position, queue, queued, waiting, tolerance),
            *(log, KICK_BREADTH, KICK_SPAN, len(log)),
        )
        if change > 0.0 and change > -temperature * np.log(draw_share(state)):
            undo(order, position, log)
        else:
            total += change
    return total


@njit(cache=True, nogil=True)
def draw(state, bound):  # type: ignore[no-untyped-def]
    """Return a random whole number below a bound: SplitMix64 (Steele, Lea and Flood 2014), whose state is one word."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    return np.int64((word >> np.uint64(11)) % np.uint64(bound))


@njit(cache=True, nogil=True)
def draw_share(state):  # type: ignore[no-untyped-def]
    """Return a random number above 0 and up to 1."""
    return (draw(state, 1 << 53) + 1.0) / (1 << 53)


@njit(cache=True, nogil=True)
def draw_cuts(state, size, cuts):  # type: ignore[no-untyped-def]
    """Draw four different positions in cyclic order, within a window behind a random one."""
    window = min(KICK_WINDOW, size)
    cuts[0] = 0
    for i in range(1, 4):
        # The i-th of the offsets 1 to window - 1 that are still free.
        offset = 1 + draw(state, window - i)
        place = i
        for j in range(1, i):
            if offset >= cuts[j]:
                offset += 1
        while cuts[place - 1] > offset:
            cuts[place] = cuts[place - 1]
            place -= 1
        cuts[place] = offset
    base = draw(state, size)
    for i in range(4):
        cuts[i] = (base + cuts[i]) % size


@njit(cache=True, nogil=True)
def descend(space, neighbours, reach, order, position, queue, queued, waiting, tolerance, no_log):  # type: ignore[no-untyped-def]
    """Examine all nodes until nothing improves; ``no_log`` is int32 [1, 2]."""
    gain = 1.0
    while gain > 0.0:
        enqueue(order, queue, queued, waiting)
        gain = settle(
            *(space, neighbours, reach, order, position, queue, queued, waiting, tolerance),
            *(no_log, neighbours.shape[1], len(order), 1 << 62),
        )


@njit(cache=True, nogil=True)
def improve_rows(space, neighbours, reach, tours, tolerance):  # type: ignore[no-untyped-def]
    """Improve tours, int64 [A, N], in place."""
    size = tours.shape[1]
    order, position = np.empty(size, np.int32), np.empty(size, np.int32)
    queue, queued, waiting = np.empty(size, np.int32), np.zeros(size, np.bool_), np.zeros(2, np.int64)
    no_log = np.zeros((1, 2), np.int32)
    for row in range(len(tours)):
        for place in range(size):
            order[place] = tours[row, place]
            position[order[place]] = place
        descend(space, neighbours, reach, order, position, queue, queued, waiting, tolerance, no_log)
        tours[row, :] = order
