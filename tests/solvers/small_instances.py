"""Small instances and their exact optima."""

from __future__ import annotations

import numpy as np

from nco.instance import Instance


def random_tsp(num_nodes: int, seed: int, metric: str = "EXACT", size: float = 1.0) -> Instance:
    """Return uniform points."""
    rng = np.random.default_rng(seed)
    return Instance(f"tsp-{num_nodes}-{seed}", "tsp", size * rng.random((num_nodes, 2)), metric)


def random_cvrp(customers: int, seed: int, capacity: int = 15, metric: str = "EXACT", size: float = 1.0) -> Instance:
    """Return uniform points with demands from 1 to 9."""
    rng = np.random.default_rng(seed)
    coords = size * rng.random((customers + 1, 2))
    demand = np.concatenate([[0], rng.integers(1, 10, customers)])
    return Instance(f"cvrp-{customers}-{seed}", "cvrp", coords, metric, demand=demand, capacity=capacity)


def optimum(instance: Instance) -> float:
    """Return the least cost, by dynamic programming over subsets of the nodes but the first (Held and Karp 1962)."""
    distance = instance.distance_matrix()
    others = range(1, instance.num_nodes)
    everything = (1 << instance.num_nodes) - 2
    paths = {(1 << node, node): distance[0, node] for node in others}
    closed = {}
    for subset in range(2, everything + 1, 2):
        members = [node for node in others if subset >> node & 1]
        for last in members if len(members) > 1 else ():
            before = ((subset ^ 1 << last, node) for node in members if node != last)
            paths[subset, last] = min(paths[key] + distance[key[1], last] for key in before)
        closed[subset] = min(paths[subset, last] + distance[last, 0] for last in members)
    if instance.problem == "tsp":
        return closed[everything]
    best = {0: 0.0}
    for subset in range(2, everything + 1, 2):
        lowest = subset & -subset
        best[subset] = min(
            closed[route] + best[subset ^ route]
            for route in range(lowest, subset + 1)
            if route & ~subset == 0 and route & lowest and _load(instance, route) <= instance.capacity
        )
    return best[everything]


def _load(instance: Instance, subset: int) -> int:
    return sum(int(instance.demand[node]) for node in range(1, instance.num_nodes) if subset >> node & 1)
