"""All trajectories of small instances, for brute force."""

from __future__ import annotations

from itertools import permutations
from typing import TypeAlias

import torch
from torch import Tensor

from nco.instance import InstanceBatch

State: TypeAlias = tuple[object, ...]


def small_cvrp(customers: int, capacity: int, seed: int = 0) -> InstanceBatch:
    """Return a CVRP whose customers have demands from 1 on, by turns 1, 2 and 3."""
    generator = torch.Generator().manual_seed(seed)
    demand = torch.tensor([[0] + [1 + number % 3 for number in range(customers)]])
    return InstanceBatch(torch.rand(1, customers + 1, 2, generator=generator), demand, torch.tensor([capacity]))


def small_tsp(size: int, seed: int = 0) -> InstanceBatch:
    """Return a TSP."""
    return InstanceBatch(torch.rand(1, size, 2, generator=torch.Generator().manual_seed(seed)))


def all_trajectories(batch: InstanceBatch) -> Tensor:
    """Return all giant tours of the only instance, int64 [1, h, L]."""
    if batch.demand is None or batch.capacity is None:
        return torch.tensor([list(permutations(range(batch.num_nodes)))])
    demand, capacity = batch.demand[0].tolist(), int(batch.capacity[0])
    found: list[list[int]] = []

    def extend(path: list[int], left: frozenset[int], room: int) -> None:
        if not left:
            found.append([*path, 0])
            return
        for node in left:
            if demand[node] <= room:
                extend([*path, node], left - {node}, room - demand[node])
        if path[-1] != 0:
            extend([*path, 0], left, capacity)

    extend([0], frozenset(range(1, batch.num_nodes)), capacity)
    longest = max(map(len, found)) + 1
    return torch.tensor([[path + [0] * (longest - len(path)) for path in found]])


def solution(problem: str, path: list[int]) -> State:
    """Return what a trajectory has built, whatever the order."""
    if problem == "tsp":
        start = path.index(0)
        tour = path[start:] + path[:start]
        return min(tuple(tour), (0, *reversed(tour[1:])))
    return state(path)[0]  # type: ignore[return-value]


def state(path: list[int]) -> State:
    """Return the state after the nodes of a CVRP's trajectory: closed routes and the open one."""
    closed: list[tuple[int, ...]] = []
    route: list[int] = []
    for node in path:
        if node:
            route.append(node)
        elif route:
            closed.append(min(tuple(route), tuple(reversed(route))))
            route = []
    return tuple(sorted(closed)), tuple(route)


def groups(problem: str, nodes: Tensor) -> Tensor:
    """Return the number of the solution of each trajectory [h, L], int64 [h]."""
    numbers: dict[State, int] = {}
    return torch.tensor([numbers.setdefault(solution(problem, path), len(numbers)) for path in nodes.tolist()])
