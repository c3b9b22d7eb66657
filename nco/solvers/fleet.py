"""How many vehicles a CVRP needs, for solvers that want a bound on them; and instances that need no solver."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nco.instance import Instance
from nco.solution import Routes, routes_cost


def reduced_demands(instance: Instance) -> tuple[NDArray[np.int64], int]:
    """Return demand [N] and capacity of a CVRP in the largest unit that keeps all demands whole.

    The demands are divided by their greatest common divisor, and so is the capacity, rounded down and cut to the total
    demand: the same routes are feasible. Solvers that keep loads in 32 bits or in floating point so get small numbers.

    Raises
    ------
    ValueError
        If the instance is no CVRP.
    """
    if instance.demand is None or instance.capacity is None:
        raise ValueError(f"instance {instance.name!r} is no CVRP")
    unit = max(1, int(np.gcd.reduce(instance.demand)))
    demand = instance.demand // unit
    return demand, min(instance.capacity // unit, max(1, int(demand.sum())))


def load_bound(instance: Instance) -> int:
    """Return the vehicles that the total demand needs: ceil(sum(demand) / capacity), at least 1."""
    demand, capacity = reduced_demands(instance)
    return max(1, -(-int(demand.sum()) // capacity))


def packed_vehicles(instance: Instance) -> int:
    """Return a number of vehicles that suffices: the bins of first-fit decreasing, at least 1.

    It may exceed :func:`load_bound`: demands of 3, 4 and 5 need three vehicles of capacity 6, not two.
    """
    demand, capacity = reduced_demands(instance)
    room: list[int] = []
    for size in sorted(demand[demand > 0].tolist(), reverse=True):
        bin_ = next((number for number, left in enumerate(room) if left >= size), None)
        if bin_ is None:
            room.append(capacity - size)
        else:
            room[bin_] -= size
    return max(1, len(room))


def generous_fleets(instance: Instance) -> list[int]:
    """Return the limits on vehicles to try one after the other, for solvers that search better with some to spare.

    The first is the rule of HGS-CVRP, ceil(1.3 * sum(demand) / capacity) + 3, if a packing into so many is known; the
    last, one vehicle for each customer, is never short.
    """
    demand, capacity = reduced_demands(instance)
    usual = -(-13 * int(demand.sum()) // (10 * capacity)) + 3
    return sorted({min(max(usual, packed_vehicles(instance)), instance.num_customers), instance.num_customers})


def tiny_routes(instance: Instance) -> Routes | None:
    """Return the best routes of an instance of two or three nodes, and None for larger ones.

    LKH refuses two nodes, and HGS never ends with one customer.
    """
    if instance.num_nodes > 3:
        return None
    if instance.problem == "tsp":
        return [np.arange(instance.num_nodes)]
    apart = [np.array([node]) for node in range(1, instance.num_nodes)]
    demand, capacity = reduced_demands(instance)
    if len(apart) < 2 or demand.sum() > capacity:
        return apart
    together = [np.array([1, 2])]
    return min(together, apart, key=lambda routes: routes_cost(instance, routes))
