"""Solutions, giant tours, costs, and the one judge of feasibility.

A *giant tour* is one int64 row. TSP: a permutation, the closing edge implied. CVRP: it starts with 0, zeros separate
the routes, and further zeros pad it at the end. *Routes* are lists of node arrays without the depot; a TSP has one
route that holds all its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nco.errors import InfeasibleSolution
from nco.instance import Instance

Routes = list[NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Solution:
    """A feasible solution and how it was found.

    Attributes
    ----------
    routes : list of int64 arrays
        Node indices of the instance (not the file's ids), without the depot.
    cost : float
        In the instance's own units and metric.
    seconds : float
        Wall-clock seconds for this instance; for instances solved together, their mean.
    solver : str
        Name of the solver.
    seed : int or None
    trace : list of (float, float)
        Points (seconds, cost) of the best solution over time, for anytime curves.
    info : dict
        What else the solver states about its run: runs, trials, iterations, threads...
    """

    routes: Routes
    cost: float
    seconds: float = 0.0
    solver: str = ""
    seed: int | None = None
    trace: list[tuple[float, float]] = field(default_factory=list)
    info: dict[str, object] = field(default_factory=dict)

    @classmethod
    def judged(
        cls,
        instance: Instance,
        routes: Sequence[ArrayLike],
        *,
        seconds: float = 0.0,
        solver: str = "",
        seed: int | None = None,
        trace: Sequence[tuple[float, float]] = (),
        info: dict[str, object] | None = None,
    ) -> Solution:
        """Judge and cost routes, and wrap them up: how every solver builds what it returns.

        Raises
        ------
        InfeasibleSolution
            If the routes break a rule of the instance.
        """
        kept = [route for route in (np.asarray(route, dtype=np.int64) for route in routes) if len(route)]
        check_routes(instance, kept)
        return cls(kept, routes_cost(instance, kept), seconds, solver, seed, list(trace), info or {})

    def gap(self, instance: Instance) -> float | None:
        """Return the percentage above the instance's reference, or None where there is none."""
        if instance.reference is None or instance.reference.cost <= 0:
            return None
        return 100.0 * (self.cost / instance.reference.cost - 1.0)


def check_routes(instance: Instance, routes: Sequence[ArrayLike]) -> None:
    """Judge routes: every node exactly once, and no route above the capacity, in integers.

    Raises
    ------
    InfeasibleSolution
        Naming the route, the node and the rule that is broken.
    """

    def fault(reason: str) -> InfeasibleSolution:
        return InfeasibleSolution(f"instance {instance.name!r}: {reason}")

    is_cvrp = instance.problem == "cvrp"
    arrays = [np.asarray(route) for route in routes]
    if not is_cvrp and len(arrays) != 1:
        raise fault(f"a TSP has one route, not {len(arrays)}")
    seen = np.zeros(instance.num_nodes, dtype=np.int64)
    for row, route in enumerate(arrays):
        if route.ndim != 1 or not (np.issubdtype(route.dtype, np.integer) or len(route) == 0):
            raise fault(f"route {row} is not a list of node indices")
        outside = (route < int(is_cvrp)) | (route >= instance.num_nodes)
        if outside.any():
            raise fault(f"route {row} visits {int(route[np.argmax(outside)])}, which is no customer")
        np.add.at(seen, route.astype(np.int64), 1)
    wrong = np.flatnonzero(seen[int(is_cvrp) :] != 1) + int(is_cvrp)
    if len(wrong):
        node = int(wrong[0])
        raise fault(f"node {node} is visited {seen[node]} times, and {len(wrong)} nodes in all not exactly once")
    if is_cvrp:
        assert instance.demand is not None and instance.capacity is not None
        for row, route in enumerate(arrays):
            load = int(instance.demand[route].sum()) if len(route) else 0
            if load > instance.capacity:
                raise fault(f"route {row} carries {load}, above the capacity {instance.capacity}")


def routes_cost(instance: Instance, routes: Sequence[ArrayLike]) -> float:
    """Return the total length in the instance's own units and metric, in double precision."""
    giant = giant_tour(instance.problem, routes)
    return float(instance.edge_lengths(giant, np.roll(giant, -1)).sum())


def giant_tour(problem: str, routes: Sequence[ArrayLike], length: int | None = None) -> NDArray[np.int64]:
    """Join routes into a giant tour, padded with zeros to ``length`` for a CVRP."""
    arrays = [np.asarray(route, dtype=np.int64) for route in routes]
    if problem == "tsp":
        return np.concatenate(arrays)
    depot = np.zeros(1, dtype=np.int64)
    tour = np.concatenate([depot, *(part for route in arrays for part in (route, depot))])
    if length is None:
        return tour
    if length < len(tour):
        raise ValueError(f"a giant tour of {len(tour)} visits does not fit into {length}")
    return np.concatenate([tour, np.zeros(length - len(tour), dtype=np.int64)])


def split_giant_tour(problem: str, tour: ArrayLike) -> Routes:
    """Split a giant tour into routes without the depot; empty routes vanish."""
    array = np.asarray(tour, dtype=np.int64)
    if problem == "tsp":
        return [array]
    pieces = np.split(array, np.flatnonzero(array == 0))
    return [piece[piece != 0] for piece in pieces if (piece != 0).any()]
