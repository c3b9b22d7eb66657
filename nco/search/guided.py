"""Local search that a heat guides: local optima are perturbed by moves that gain heat, and searched anew.

The perturbation is that of GFACS and AGFN (after the neural-guided local search of DeepACO, Ye et al. 2023): a few
improving moves in a space where an edge is as long as the network thinks ill of it, 1 / (heat / largest heat of the
row + 1e-5). Such a space is a matrix, so guided search ends at 5,000 nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nco.geometry import DENSE_LIMIT
from nco.search.heat import SparseHeat
from nco.search.space import Space, dense, neighbour_lists
from nco.search.tsp_descent import clear, descend, draw, enqueue, neighbour_distances, settle, tour_length
from nco.search.tsp_local_search import in_threads, least_gain, local_search_many

# Heat-derived distances are at most 1 over this.
_COLDEST = 1e-5


def heat_distances(heat: SparseHeat, row: int) -> NDArray[np.float64]:
    """Return how far apart a heat sees the nodes of one instance, float64 [N, N].

    The distance of two nodes is the smaller of those of the two directions.

    Raises
    ------
    ValueError
        Above :data:`nco.geometry.DENSE_LIMIT` nodes.
    """
    neighbours = heat.neighbours[row].cpu().numpy()
    size = len(neighbours)
    if size > DENSE_LIMIT:
        raise ValueError(f"the heat of {size} nodes cannot become a matrix; the limit is {DENSE_LIMIT}")
    heats = np.zeros((size, size))
    np.put_along_axis(heats, neighbours, heat.heat[row].detach().cpu().numpy().astype(np.float64), axis=1)
    if heat.from_depot is not None and heat.to_depot is not None:
        heats[0] = heat.from_depot[row].detach().cpu().numpy()
        heats[:, 0] = heat.to_depot[row].detach().cpu().numpy()
        heats[0, 0] = 0.0
    largest = heats.max(axis=1, keepdims=True)
    distances = 1.0 / (heats / np.where(largest > 0.0, largest, 1.0) + _COLDEST)
    distances = np.minimum(distances, distances.T)
    np.fill_diagonal(distances, 0.0)
    return distances


@dataclass(frozen=True)
class Guidance:
    """How a local optimum is perturbed.

    Attributes
    ----------
    rounds : int
        Perturbations of a tour, each followed by a local search; the best local optimum counts.
    moves : int
        Improving moves of a perturbation at most.
    """

    rounds: int = 5
    moves: int = 20


PLAIN = Guidance(rounds=0)


class TourSearch:
    """Local search for many tours of TSP instances, with or without guidance.

    Parameters
    ----------
    spaces : sequence of B Space
    heat : SparseHeat, optional
        Of the same instances; only guidance needs it.
    guidance : Guidance
        No rounds: plain local search.
    neighbours : int
        Length of the neighbour lists.
    threads : int
        The tours do not depend on it.
    """

    def __init__(
        self,
        spaces: Sequence[Space],
        heat: SparseHeat | None = None,
        guidance: Guidance = PLAIN,
        neighbours: int = 10,
        threads: int = 1,
    ):
        if guidance.rounds and heat is None:
            raise ValueError("a guided search needs a heat")
        self._spaces = list(spaces)
        self._guidance = guidance
        self._threads = threads
        self._lists = [neighbour_lists(space, neighbours) for space in spaces]
        self._guides: list[tuple[Space, NDArray[np.int32], NDArray[np.float64]]] = []
        if guidance.rounds and heat is not None:
            for row in range(len(self._spaces)):
                guide = dense(heat_distances(heat, row))
                lists = neighbour_lists(guide, neighbours)
                self._guides.append((guide, lists, neighbour_distances(guide, lists)))

    def __call__(self, tours: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return local optima of tours, int64 [B, h, N]."""
        if not self._guides or tours.shape[2] < 5:
            return local_search_many(self._spaces, tours, self._lists, threads=self._threads)
        found = tours.copy()
        states = rng.integers(0, 2**64, size=(*tours.shape[:2], 1), dtype=np.uint64)

        def improve(row: int, first: int, last: int) -> None:
            space, lists = self._spaces[row], self._lists[row]
            guided_rows(
                *(space, lists, neighbour_distances(space, lists), least_gain(space)),
                *(*self._guides[row], self._guidance.rounds, self._guidance.moves),
                *(states[row, first:last], found[row, first:last]),
            )

        in_threads(improve, len(found), found.shape[1], self._threads)
        return found


@njit(cache=True, nogil=True)
def guided_rows(space, lists, reach, tolerance, guide, guide_lists, guide_reach, rounds, moves, states, tours):  # type: ignore[no-untyped-def]
    """Improve tours, int64 [A, N], in place; ``states`` is uint64 [A, 1]."""
    size = tours.shape[1]
    order, position, best = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    queue, queued, waiting = np.empty(size, np.int32), np.zeros(size, np.bool_), np.zeros(2, np.int64)
    no_log = np.zeros((1, 2), np.int32)
    for row in range(len(tours)):
        for place in range(size):
            order[place] = tours[row, place]
            position[order[place]] = place
        least = np.inf
        for turn in range(rounds + 1):
            if turn > 0:
                # The moves are spread over the tour: nodes are examined in an order drawn anew.
                clear(queued, waiting)
                shuffled = order.copy()
                for place in range(size - 1, 0, -1):
                    other = draw(states[row], place + 1)
                    shuffled[place], shuffled[other] = shuffled[other], shuffled[place]
                enqueue(shuffled, queue, queued, waiting)
                settle(
                    *(guide, guide_lists, guide_reach, order, position, queue, queued, waiting, 1e-9),
                    *(no_log, guide_lists.shape[1], size, moves),
                )
                clear(queued, waiting)
            descend(space, lists, reach, order, position, queue, queued, waiting, tolerance, no_log)
            length = tour_length(space, order)
            if length < least:
                least = length
                best[:] = order
        tours[row, :] = best
