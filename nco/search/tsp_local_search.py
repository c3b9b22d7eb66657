"""Local search and iterated local search for TSP tours: 2-opt, Or-opt and sequential 3-opt with neighbour lists.

Local search examines nodes from a first-in-first-out queue; a node is examined again only after one of its tour edges
has changed (the don't-look bits of Bentley 1992). What the queue misses is found by examining all nodes once more,
until that changes nothing: then no improving move is left within the neighbour lists.

Iterated local search (Martin, Otto and Felten 1991; Johnson and McGeoch 1997) makes a double bridge of nearby cuts,
lets the search repair it from the ends of the cut edges only, and takes both back where the tour has not become good
enough: a step works on a small part of the tour, whatever its size. Longer tours are accepted as in simulated
annealing, at a temperature that falls to zero, and the best tour is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nco.search.space import MATRIX, Space, neighbour_lists
from nco.search.tsp_descent import (
    clear,
    enqueue,
    improve_rows,
    neighbour_distances,
    perturb,
    settle,
    tour_length,
)

# A clock is looked at after so many moves or steps, some tens of milliseconds.
_MOVES_A_CALL = 2_000
_STEPS_A_CALL = 1_000
_LOG_SIZE = 4_096


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search has found.

    Attributes
    ----------
    tour : int64 [N]
        Never longer than the tour that the search was given.
    length : float
    iterations : int
        Kicks of the iterated local search.
    trace : list of (float, float)
        Seconds since the start and length, for each improvement of the best tour that was seen when the clock was
        looked at.
    """

    tour: NDArray[np.int64]
    length: float
    iterations: int = 0
    trace: list[tuple[float, float]] = field(default_factory=list)


def local_search(
    space: Space, tour: ArrayLike, neighbours: NDArray[np.int32] | None = None, *, time_limit: float | None = None
) -> SearchResult:
    """Improve a tour until no improving 2-opt, Or-opt or sequential 3-opt move is left within the neighbour lists.

    Parameters
    ----------
    space : Space
        :func:`nco.search.space.plane` makes one of coordinates.
    tour : int [N]
        A permutation of the nodes.
    neighbours : int32 [N, K], optional
        Each node's neighbours, nearest first; the 10 nearest by default.
    time_limit : float, optional
        Wall-clock seconds, after which the search may stop early.

    Raises
    ------
    ValueError
        If the tour is no permutation or the neighbour lists have another shape.
    """
    search = _Search(space, tour, neighbours)
    search.settle(time_limit)
    return SearchResult(search.tour(), search.length, trace=search.trace)


def iterated_local_search(
    space: Space,
    tour: ArrayLike,
    neighbours: NDArray[np.int32] | None = None,
    *,
    rng: np.random.Generator,
    iterations: int | None = None,
    time_limit: float | None = None,
    temperature: float = 0.5,
) -> SearchResult:
    """Improve a tour by local search, then by kicks and repairs.

    Parameters
    ----------
    space, tour, neighbours
        As for :func:`local_search`.
    rng : numpy.random.Generator
    iterations : int, optional
        Kicks. By default as many as the time limit leaves room for.
    time_limit : float, optional
        Wall-clock seconds. The clock is looked at every 1,000 kicks; a last look at all nodes comes on top.
    temperature : float
        Where the temperature begins, in mean edge lengths of the first local optimum; it falls linearly over the
        iterations, or over the time where those are not given. At 0 a longer tour is never accepted.

    Raises
    ------
    ValueError
        If neither iterations nor a time limit is given, or the tour is no permutation.
    """
    if iterations is None and time_limit is None:
        raise ValueError("an iterated local search needs a number of iterations or a time limit")
    search = _Search(space, tour, neighbours)
    search.settle(time_limit)
    if len(search.order) < 5:  # too few nodes for a double bridge; local search has found the optimum
        return SearchResult(search.tour(), search.length, trace=search.trace)
    state = rng.integers(0, 2**63, size=1).astype(np.uint64)
    hottest = temperature * max(0.0, search.length) / len(search.order)
    # At least 50 temperatures, however few the iterations.
    steps = _STEPS_A_CALL if iterations is None else min(_STEPS_A_CALL, max(1, iterations // 50))
    done = 0
    best_length, best_order = search.length, search.order.copy()
    while (iterations is None or done < iterations) and (time_limit is None or search.seconds() < time_limit):
        share = search.seconds() / time_limit if iterations is None and time_limit else done / (iterations or 1)
        count = steps if iterations is None else min(steps, iterations - done)
        search.perturb(state, count, hottest * (1.0 - share))
        done += count
        if search.length < best_length - search.tolerance:
            best_length = search.length
            best_order[:] = search.order
            search.record()
    if done > 0:
        search.reset(best_order)
        search.settle()
    return SearchResult(search.tour(), search.length, done, search.trace)


def local_search_many(
    spaces: Sequence[Space],
    tours: NDArray[np.integer],
    neighbours: Sequence[NDArray[np.int32]] | None = None,
    *,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Improve A tours of each of B instances by local search, in threads.

    Kernels release the interpreter lock, so ``threads`` of them run at once; the result does not depend on it.

    Parameters
    ----------
    spaces : sequence of B Space
    tours : int [B, A, N]
    neighbours : sequence of B int32 [N, K], optional
        The 10 nearest by default.
    threads : int

    Returns
    -------
    int64 [B, A, N]

    Raises
    ------
    ValueError
        As for :func:`local_search`; or if the numbers of spaces, tours and lists do not agree.
    """
    found = np.array(tours, dtype=np.int64)
    if found.ndim != 3 or len(found) != len(spaces):
        raise ValueError(f"{len(spaces)} spaces need tours of the shape [{len(spaces)}, A, N], not {list(found.shape)}")
    if neighbours is not None and len(neighbours) != len(spaces):
        raise ValueError(f"{len(spaces)} spaces but {len(neighbours)} neighbour lists")

    def improve(row: int, first: int, last: int) -> None:
        space = spaces[row]
        lists, reach = _checked_lists(space, None if neighbours is None else neighbours[row])
        for ant in range(first, last):
            _check_tour(found[row, ant], space.num_nodes)
        if space.num_nodes > 3:
            improve_rows(space, lists, reach, found[row, first:last], least_gain(space))

    in_threads(improve, len(spaces), found.shape[1], threads)
    return found


def in_threads(function: Callable[[int, int, int], None], rows: int, ants: int, threads: int) -> None:
    """Call function(row, first, last) for all ants of all rows, in threads.

    Ants of one row are split too, so that few rows keep all threads busy.
    """
    block = max(1, -(-ants * rows // (4 * threads)))
    jobs = [(row, ant, min(ant + block, ants)) for row in range(rows) for ant in range(0, ants, block)]
    with ThreadPoolExecutor(threads) as pool:
        for job in [pool.submit(function, *arguments) for arguments in jobs]:
            job.result()


def least_gain(space: Space) -> float:
    """Return what a move must gain at least: above the rounding errors of a few additions."""
    largest = np.abs(space.matrix).max() if space.metric == MATRIX else np.ptp(space.coords, axis=0).sum()
    return 1e-12 * float(largest)


def _check_tour(tour: NDArray[np.int64], num_nodes: int) -> None:
    if tour.shape != (num_nodes,) or not np.array_equal(np.sort(tour), np.arange(num_nodes)):
        raise ValueError(f"the tour is no permutation of the {num_nodes} nodes")


def _checked_lists(space: Space, neighbours: NDArray[np.int32] | None) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return neighbour lists and the distances to the neighbours, both [N, K]."""
    if neighbours is None:
        neighbours = neighbour_lists(space, 10)
    lists = np.ascontiguousarray(neighbours, dtype=np.int32)
    if lists.ndim != 2 or len(lists) != space.num_nodes or lists.shape[1] == 0:
        raise ValueError(f"neighbour lists of {space.num_nodes} nodes cannot have the shape {list(lists.shape)}")
    if lists.min() < 0 or lists.max() >= space.num_nodes:
        raise ValueError("a neighbour list names a node that there is not")
    return lists, neighbour_distances(space, lists)


class _Search:
    """A tour under search, with the buffers of its kernels.

    In the plane the nodes are renumbered in the order of the given tour: what is near in space is then near in memory.
    """

    def __init__(self, space: Space, tour: ArrayLike, neighbours: NDArray[np.int32] | None):
        self._start = time.perf_counter()
        given = np.asarray(tour, dtype=np.int64)
        _check_tour(given, space.num_nodes)
        lists, reach = _checked_lists(space, neighbours)
        self._names = np.arange(len(given))
        if space.metric != MATRIX:
            self._names = given
            number = np.empty(len(given), np.int32)
            number[given] = np.arange(len(given))
            space = space._replace(coords=space.coords[given])
            lists, reach = number[lists[given]], reach[given]
        self._space, self._lists, self._reach = space, lists, reach
        self.tolerance = least_gain(space)
        self._waiting = np.zeros(2, np.int64)
        self._queue = np.empty(len(given), np.int32)
        self._queued = np.zeros(len(given), np.bool_)
        self._log = np.zeros((1 + _LOG_SIZE, 2), np.int32)
        self.position = np.empty(len(given), np.int32)
        self.order = np.empty(len(given), np.int32)
        self.reset(given if space.metric == MATRIX else np.arange(len(given)))
        self.trace: list[tuple[float, float]] = []
        self.record()

    def seconds(self) -> float:
        """Return the wall-clock seconds since the search began."""
        return time.perf_counter() - self._start

    def record(self) -> None:
        """Add a point to the trace."""
        self.trace.append((self.seconds(), self.length))

    def tour(self) -> NDArray[np.int64]:
        """Return the tour in the caller's numbers."""
        return self._names[self.order]

    def reset(self, order: NDArray[np.integer]) -> None:
        """Take a tour, in the numbers of the search."""
        self.order[:] = order
        self.position[self.order] = np.arange(len(order), dtype=np.int32)
        self.length = tour_length(self._space, self.order)

    def settle(self, time_limit: float | None = None) -> None:
        """Search until nothing improves, or the time is up."""
        if len(self.order) < 4:
            return
        before = self.length
        changed = True
        while changed:
            enqueue(self.order, self._queue, self._queued, self._waiting)
            changed = False
            while self._waiting[1] > 0:
                if time_limit is not None and self.seconds() >= time_limit:
                    changed = False
                    break
                limits = (self._lists.shape[1], len(self.order), _MOVES_A_CALL)
                gain = settle(*self._arrays(), self._log[:1], *limits)  # type: ignore[call-arg]
                changed |= gain > 0.0
                self.length -= gain
        clear(self._queued, self._waiting)
        if self.length < before:
            self.record()

    def perturb(self, state: NDArray[np.uint64], steps: int, temperature: float) -> None:
        """Make some kicks."""
        self.length += perturb(*self._arrays(), self._log, state, steps, temperature)  # type: ignore[call-arg]

    def _arrays(self) -> tuple[Any, ...]:
        return (
            *(self._space, self._lists, self._reach, self.order, self.position),
            *(self._queue, self._queued, self._waiting, self.tolerance),
        )
