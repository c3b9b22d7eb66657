"""Descent of CVRP solutions to local optima, and its perturbation, as numba kernels.

Customers are examined from a first-in-first-out queue, and again after one of their edges has changed. When the queue
is empty, SWAP* tries the pairs of near routes of which one has changed. Then all customers of the routes that have
changed are examined once more, since what a move may do depends on loads too, until no route changes any more.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nco.search.route_moves import NO_MOVE, Plan, find_move, load_plan, make_move, plan_length, save_plan
from nco.search.swap_star import swap_star
from nco.search.tsp_descent import clear, draw, enqueue, push

# Routes are near where a customer of one is among so many nearest of a customer of the other.
_NEAR = 5


@njit(cache=True, nogil=True)
def search_rows(
    space, lists, reach, tolerance, guide, guide_lists, guide_reach, rounds, moves, demand, capacity, states, tours
):  # type: ignore[no-untyped-def]
    """Improve giant tours, int64 [A, L], in place; the best local optimum of each counts.

    Parameters
    ----------
    space, lists, reach : Space, int32 [N, K], float64 [N, K]
        Where the nodes lie, near customers of each, and the distances to them.
    tolerance : float
        A move must gain more than this.
    guide, guide_lists, guide_reach
        The same for perturbations.
    rounds, moves : int
        Perturbations of a solution, and moves of a perturbation at most.
    demand, capacity : int64 [N], int
    states : uint64 [A, 1]
        Random numbers.
    tours : int64 [A, L]
    """
    size = len(demand)
    queue, queued, waiting = np.empty(size, np.int32), np.zeros(size, np.bool_), np.zeros(2, np.int64)
    for row in range(len(tours)):
        customers = np.arange(1, size).astype(np.int32)
        plan = _new_plan(tours[row], demand, capacity)
        load_plan(plan, tours[row])
        least = np.inf
        for turn in range(rounds + 1):
            if turn > 0:
                # The moves are spread over the map: customers are examined in an order drawn anew.
                for place in range(len(customers) - 1, 0, -1):
                    other = draw(states[row], place + 1)
                    customers[place], customers[other] = customers[other], customers[place]
                enqueue(customers, queue, queued, waiting)
                _settle(guide, plan, guide_lists, guide_reach, 1e-9, queue, queued, waiting, moves)
                clear(queued, waiting)
            descend_routes(space, plan, lists, reach, tolerance, queue, queued, waiting)
            length = plan_length(space, plan)
            if length < least:
                least = length
                save_plan(plan, tours[row])


@njit(cache=True, nogil=True)
def _new_plan(tour, demand, capacity):  # type: ignore[no-untyped-def]
    """Return a plan with as many routes as a giant tour has."""
    size, routes = len(demand), 0
    for step in range(1, len(tour)):
        routes += tour[step] != 0 and tour[step - 1] == 0
    tokens = size + routes
    return Plan(
        np.zeros(tokens, np.int32),
        np.zeros(tokens, np.int32),
        np.zeros(tokens, np.int32),
        np.zeros(tokens, np.int32),
        np.zeros(tokens, np.int64),
        np.zeros(routes, np.int64),
        np.ones(routes, np.bool_),
        demand,
        np.full(1, capacity),
        np.empty(tokens, np.int32),
    )


@njit(cache=True, nogil=True)
def descend_routes(space, plan, lists, reach, tolerance, queue, queued, waiting):  # type: ignore[no-untyped-def]
    """Improve until nothing more gains around the routes that have changed."""
    while plan.changed.any():
        due = plan.changed.copy()
        plan.changed[:] = False
        for node in range(1, len(plan.demand)):
            if due[plan.route[node]]:
                push(queue, queued, waiting, node)
        _settle(space, plan, lists, reach, tolerance, queue, queued, waiting, 1 << 62)
        _swap_near_routes(space, plan, lists, tolerance, due | plan.changed)


@njit(cache=True, nogil=True)
def _settle(space, plan, lists, reach, tolerance, queue, queued, waiting, most):  # type: ignore[no-untyped-def]
    """Examine the queue until it is empty or ``most`` moves are made."""
    touched = np.empty(24, np.int32)
    while most > 0 and waiting[1] > 0:
        u = queue[waiting[0]]
        waiting[0] = waiting[0] + 1 if waiting[0] + 1 < len(queue) else 0
        waiting[1] -= 1
        queued[u] = False
        _, kind, v, forward, after, count, other_count, a, b = find_move(space, plan, lists, reach, tolerance, u)
        if kind == NO_MOVE:
            continue
        # The ends of all cut edges lie among these, before or after the move.
        found = _around(plan, u, v, a, b, touched, 0)
        make_move(plan, kind, u, v, forward, after, count, other_count, a, b)
        _around(plan, u, v, a, b, touched, found)
        most -= 1
        for token in touched:
            if token < len(plan.demand):
                push(queue, queued, waiting, token)


@njit(cache=True, nogil=True)
def _around(plan, u, v, a, b, touched, begin):  # type: ignore[no-untyped-def]
    """Write four tokens and their neighbours on their routes into ``touched``; return where the next ones go."""
    for token in (u, v, a, b):
        touched[begin], touched[begin + 1], touched[begin + 2] = plan.pred[token], token, plan.succ[token]
        begin += 3
    return begin


@njit(cache=True, nogil=True)
def _swap_near_routes(space, plan, lists, tolerance, due):  # type: ignore[no-untyped-def]
    """Try SWAP* between near routes of which one is due."""
    size = len(plan.demand)
    tried = np.full(len(plan.load), -1, np.int32)
    for route in range(len(plan.load)):
        # SWAP* changes the route: its members are those from before.
        members = plan.scratch
        count = 0
        node = plan.succ[size + route]
        while node < size:
            members[count] = node
            count += 1
            node = plan.succ[node]
        for index in range(count):
            for k in range(min(_NEAR, lists.shape[1])):
                other = plan.route[lists[members[index], k]]
                if other != route and tried[other] != route and (due[route] or due[other]):
                    tried[other] = route
                    swap_star(space, plan, route, other, tolerance)
