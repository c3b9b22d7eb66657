"""Local search for many solutions of CVRPs at once, with or without guidance by a heat.

It is that of HGS-CVRP (Vidal 2022) in its moves: relocations, exchanges, 2-opt, 2-opt* and SWAP*, for near customers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nco.search.guided import PLAIN, Guidance, heat_distances
from nco.search.heat import SparseHeat
from nco.search.route_descent import search_rows
from nco.search.space import MATRIX, Space, dense, neighbour_lists
from nco.search.tsp_descent import neighbour_distances
from nco.search.tsp_local_search import in_threads, least_gain


class RouteSearch:
    """Local search of CVRP instances: from giant tours to giant tours.

    Parameters
    ----------
    spaces : sequence of B Space
        Node 0 is the depot.
    demand : sequence of B int64 [N]
    capacity : sequence of B int
    heat : SparseHeat, optional
        Of the same instances; only guidance needs it.
    guidance : Guidance
        No rounds: plain local search.
    neighbours : int
        How many near customers are tried for each.
    threads : int
        The solutions do not depend on it.
    """

    def __init__(
        self,
        spaces: Sequence[Space],
        demand: Sequence[NDArray[np.int64]],
        capacity: Sequence[int],
        heat: SparseHeat | None = None,
        guidance: Guidance = PLAIN,
        neighbours: int = 10,
        threads: int = 1,
    ):
        if guidance.rounds and heat is None:
            raise ValueError("a guided search needs a heat")
        self._spaces = list(spaces)
        self._loads = [(np.array(each, np.int64), int(most)) for each, most in zip(demand, capacity, strict=True)]
        self._guidance = guidance
        self._threads = threads
        self._real = [_with_lists(space, neighbours) for space in self._spaces]
        self._guides = self._real
        if guidance.rounds and heat is not None:
            spaces = [dense(heat_distances(heat, row)) for row in range(len(self._spaces))]
            self._guides = [_with_lists(space, neighbours) for space in spaces]

    def __call__(self, tours: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return local optima of giant tours, int64 [B, h, L]; they have no more routes than the given ones."""
        found = tours.copy()
        states = rng.integers(0, 2**64, size=(*tours.shape[:2], 1), dtype=np.uint64)

        def improve(row: int, first: int, last: int) -> None:
            search_rows(
                *(*self._real[row], least_gain(self._spaces[row]), *self._guides[row]),
                *(self._guidance.rounds, self._guidance.moves, *self._loads[row]),
                *(states[row, first:last], found[row, first:last]),
            )

        in_threads(improve, len(found), found.shape[1], self._threads)
        return found


def _with_lists(space: Space, k: int) -> tuple[Space, NDArray[np.int32], NDArray[np.float64]]:
    """Return a space, the near customers of each customer, nearest first, and the distances to them."""
    if space.num_nodes == 2:
        return space, np.zeros((2, 0), np.int32), np.zeros((2, 0))
    customers = space._replace(coords=space.coords[1:])
    if space.metric == MATRIX:
        customers = customers._replace(matrix=np.ascontiguousarray(space.matrix[1:, 1:]))
    lists = np.pad(neighbour_lists(customers, k) + np.int32(1), ((1, 0), (0, 0)))
    return space, lists, neighbour_distances(space, lists)
