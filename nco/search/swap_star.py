"""SWAP* (Vidal 2022) as numba kernels: two customers of different routes change routes, each to its best place there.

The three best places of a customer in the other route are found once: of these the customer that leaves that route
takes two along at most. Then each pair is judged in constant time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nco.search.route_moves import apart, refresh

_PLACES = 3


@njit(cache=True, nogil=True)
def swap_star(space, plan, route, other, tolerance):  # type: ignore[no-untyped-def]
    """Make the best SWAP* move between two routes, if it gains more than the tolerance."""
    size = len(plan.demand)
    costs_u, places_u = _best_places(space, plan, route, other)
    costs_v, places_v = _best_places(space, plan, other, route)
    gain, best_u, best_v, best_place_u, best_place_v = tolerance, 0, 0, 0, 0
    room, other_room = plan.capacity[0] - plan.load[route], plan.capacity[0] - plan.load[other]
    u = plan.succ[size + route]
    while u < size:
        removed_u = _detour(space, plan, plan.pred[u], u, plan.succ[u])
        v = plan.succ[size + other]
        while v < size:
            more = plan.demand[u] - plan.demand[v]
            if more <= other_room and -more <= room:
                removed = removed_u + _detour(space, plan, plan.pred[v], v, plan.succ[v])
                place_u, cost_u = _place_without(space, plan, u, v, costs_u, places_u)
                place_v, cost_v = _place_without(space, plan, v, u, costs_v, places_v)
                gained = removed - cost_u - cost_v
                if gained > gain:
                    gain, best_u, best_v, best_place_u, best_place_v = gained, u, v, place_u, place_v
            v = plan.succ[v]
        u = plan.succ[u]
    if best_u == 0:
        return
    for node in (best_u, best_v):
        plan.succ[plan.pred[node]], plan.pred[plan.succ[node]] = plan.succ[node], plan.pred[node]
    for node, place in ((best_u, best_place_u), (best_v, best_place_v)):
        behind = plan.succ[place]
        plan.succ[place], plan.pred[node], plan.succ[node], plan.pred[behind] = node, place, behind, node
    refresh(plan, route)
    refresh(plan, other)


@njit(cache=True, nogil=True)
def _detour(space, plan, left, node, right):  # type: ignore[no-untyped-def]
    """Return what a node adds between two others."""
    return apart(space, plan, left, node) + apart(space, plan, node, right) - apart(space, plan, left, right)


@njit(cache=True, nogil=True)
def _best_places(space, plan, route, other):  # type: ignore[no-untyped-def]
    """Return the least costs of inserting each customer of a route into another, [customers, 3], and behind whom."""
    size = len(plan.demand)
    count = plan.place[plan.pred[size + route]]
    costs = np.full((count, _PLACES), np.inf)
    places = np.full((count, _PLACES), -1, np.int32)
    node = plan.succ[size + route]
    for index in range(count):
        token = size + other
        for _ in range(plan.place[plan.pred[size + other]] + 1):
            cost = _detour(space, plan, token, node, plan.succ[token])
            rank = _PLACES
            while rank > 0 and cost < costs[index, rank - 1]:
                rank -= 1
                if rank + 1 < _PLACES:
                    costs[index, rank + 1], places[index, rank + 1] = costs[index, rank], places[index, rank]
            if rank < _PLACES:
                costs[index, rank], places[index, rank] = cost, token
            token = plan.succ[token]
        node = plan.succ[node]
    return costs, places


@njit(cache=True, nogil=True)
def _place_without(space, plan, node, gone, costs, places):  # type: ignore[no-untyped-def]
    """Return behind whom a node is best inserted on the route of another that leaves it, and what that costs."""
    left = plan.pred[gone]
    best, least = left, _detour(space, plan, left, node, plan.succ[gone])
    index = plan.place[node] - 1
    for rank in range(_PLACES):
        place = places[index, rank]
        if place >= 0 and place != gone and place != left:
            if costs[index, rank] < least:
                best, least = place, costs[index, rank]
            break
    return best, least
