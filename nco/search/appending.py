"""Greedy decoding by appending: paths grow node by node, many rows side by side, as a scorer of candidates decides.

What a step needs besides the scorer - the candidates, capacities, moves - is one numba call for all rows, so that a
step costs few PyTorch calls and a whole decoding O(N k log N) time and O(N) memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from nco.instance import InstanceBatch
from nco.search.candidates import Candidates, CandidateScorer
from nco.search.nearest_open import OpenPoints, close, nearest, open_points


@dataclass(frozen=True)
class OpenPaths:
    """R paths to be built: whole tours or segments of tours, each over up to M nodes.

    Attributes
    ----------
    first, last : float32 [R, F]
        Where the path ends in the end (a CVRP's depot), and where it starts: see :class:`Candidates`.
    nodes : float32 [R, M, F]
        The nodes to visit between them, padded.
    sizes : int64 [R]
        How many of those there are.
    demand : int64 [R, M] or None
        CVRP only, as the next two.
    capacity : int64 [R] or None
    room : int64 [R] or None
        Capacity left where the path starts.
    """

    first: NDArray[np.float32]
    last: NDArray[np.float32]
    nodes: NDArray[np.float32]
    sizes: NDArray[np.int64]
    demand: NDArray[np.int64] | None = None
    capacity: NDArray[np.int64] | None = None
    room: NDArray[np.int64] | None = None

    def __getitem__(self, rows: NDArray[np.int64]) -> OpenPaths:
        values = (self.first, self.last, self.nodes, self.sizes, self.demand, self.capacity, self.room)
        return OpenPaths(*(None if value is None else value[rows] for value in values))  # type: ignore[arg-type]


class _Growth(NamedTuple):
    """Paths at work, those with the most nodes first; without demands (a TSP) these are empty."""

    open: OpenPoints
    first: NDArray[np.float32]
    last: NDArray[np.float32]
    nodes: NDArray[np.float32]
    demand: NDArray[np.int64]
    capacity: NDArray[np.int64]
    room: NDArray[np.int64]
    order: NDArray[np.int64]
    begins: NDArray[np.bool_]


class _View(NamedTuple):
    """The arrays of one step's candidates, and the numbers of the candidates."""

    number: NDArray[np.int64]
    first: NDArray[np.float32]
    last: NDArray[np.float32]
    nodes: NDArray[np.float32]
    mask: NDArray[np.bool_]
    remaining: NDArray[np.float32]
    fits: NDArray[np.bool_]


def append_greedily(
    batch: InstanceBatch,
    scorer: CandidateScorer,
    k: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Build the tours of all instances, always appending the candidate with the highest score.

    A TSP starts from node 0, which is its destination too; a CVRP from the depot.

    Parameters
    ----------
    batch : InstanceBatch
    scorer : CandidateScorer
    k : int, optional
        The candidates are the k unvisited nodes nearest to the last node; by default all unvisited nodes.
    progress : callable, optional
        Called with the number of nodes appended to every tour.

    Returns
    -------
    int64 [B, L]
        Giant tours.

    Raises
    ------
    ValueError
        If the scorer allows no candidate, or prefers a move that there is not.
    """
    nodes, demand, capacity = features(batch)
    rows, num_nodes = nodes.shape[:2]
    start = nodes[:, 0]
    sizes = np.full(rows, num_nodes - 1)
    inner_demand = None if demand is None else demand[:, 1:]
    paths = OpenPaths(start, start, nodes[:, 1:], sizes, inner_demand, capacity, capacity)
    order, begins = append_paths(paths, scorer, k, batch.device, progress)
    if demand is None:
        tours = np.concatenate([np.zeros((rows, 1), np.int64), order + 1], axis=1)
    else:
        begins[:, 0] = True
        tours = join_routes(order + 1, begins, 2 * num_nodes - 1)
    return torch.from_numpy(tours).to(batch.device)


def features(batch: InstanceBatch) -> tuple[NDArray[np.float32], NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Return what scorers see of the nodes, float32 [B, N, F], and a CVRP's demands [B, N] and capacities [B]."""
    coords = batch.coords.cpu().numpy()
    if batch.demand is None or batch.capacity is None:
        return coords, None, None
    ratio = (batch.demand / batch.capacity[:, None]).float().cpu().numpy()
    nodes = np.concatenate([coords, ratio[..., None]], axis=2)
    return nodes, batch.demand.cpu().numpy(), batch.capacity.cpu().numpy()


def join_routes(nodes: NDArray[np.int64], begins: NDArray[np.bool_], length: int) -> NDArray[np.int64]:
    """Return giant tours of customers in order of visit, with a depot before each that begins a route.

    Parameters
    ----------
    nodes, begins : int64 [B, n], bool [B, n]
    length : int

    Returns
    -------
    int64 [B, length]
    """
    tours = np.zeros((len(nodes), length), np.int64)
    place = np.arange(nodes.shape[1]) + np.cumsum(begins, axis=1)
    np.put_along_axis(tours, place, nodes, axis=1)
    return tours


def append_paths(
    paths: OpenPaths,
    scorer: CandidateScorer,
    k: int | None = None,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Build paths greedily; see :func:`append_greedily`.

    Returns
    -------
    int64 [R, M]
        Each path's nodes in order of visit, as indices into its ``nodes``; -1 behind its last.
    bool [R, M]
        Which visits were reached via the depot; never in a TSP.
    """
    rank = np.argsort(-paths.sizes, kind="stable")
    sizes = paths.sizes[rank]
    growth = _start(paths[rank])
    # Paths with more nodes come first, so those still at work are always the first rows.
    at_work = len(sizes) - np.searchsorted(sizes[::-1], np.arange(sizes[0]), side="right")
    for step, active in enumerate(at_work.tolist()):
        left = int(sizes[0]) - step
        width = left if k is None else min(k, left)
        view = _look(growth, active, width)
        best, choice = scorer(_candidates(view, device)).max(dim=1)
        faulty = _append(growth, view.number, view.fits, best.float().cpu().numpy(), choice.cpu().numpy(), step)
        if faulty >= 0:
            raise ValueError(
                f"row {rank[faulty]}: the scorer allows no candidate at step {step}, or prefers one that there is not"
            )
        if progress is not None:
            progress(step + 1)
    order, begins = np.empty_like(growth.order), np.empty_like(growth.begins)
    order[rank], begins[rank] = growth.order, growth.begins
    return order, begins


def _start(paths: OpenPaths) -> _Growth:
    rows, most = paths.nodes.shape[:2]
    none = np.zeros(0, np.int64)
    return _Growth(
        open_points(paths.nodes[..., :2], paths.sizes),
        np.ascontiguousarray(paths.first),
        paths.last.copy(),
        np.ascontiguousarray(paths.nodes),
        np.zeros((0, 0), np.int64) if paths.demand is None else np.ascontiguousarray(paths.demand),
        none if paths.capacity is None else paths.capacity,
        none if paths.room is None else paths.room.copy(),
        np.full((rows, most), -1, np.int64),
        np.zeros((rows, most), np.bool_),
    )


def _look(growth: _Growth, active: int, width: int) -> _View:
    """Return the candidates of the first rows."""
    held = active if len(growth.demand) else 0
    view = _View(
        np.empty((active, width), np.int64),
        growth.first[:active],
        growth.last[:active].copy(),
        np.empty((active, width, growth.nodes.shape[2]), np.float32),
        np.empty((active, width), np.bool_),
        np.empty(held, np.float32),
        np.empty((held, width), np.bool_),
    )
    _fill(growth, view)
    return view


def _candidates(view: _View, device: torch.device | str) -> Candidates:
    tensors = [torch.from_numpy(array).to(device) for array in view[1:]]
    return Candidates(*tensors[: 6 if len(view.fits) else 4])


@njit(cache=True, nogil=True)
def _fill(growth, view):  # type: ignore[no-untyped-def]
    for row in range(len(view.number)):
        number, nodes = view.number[row], growth.nodes[row]
        last = growth.last[row]
        count = nearest(growth.open, row, np.float64(last[0]), np.float64(last[1]), number)
        view.mask[row] = number >= 0
        for slot in range(count):
            view.nodes[row, slot] = nodes[number[slot]]
        # What fills up the row is seen by nothing; it is the last node, which changes no range and no maximum.
        for slot in range(count, len(number)):
            view.nodes[row, slot] = last
        if len(view.remaining):
            view.remaining[row] = growth.room[row] / growth.capacity[row]
            for slot in range(len(number)):
                view.fits[row, slot] = slot < count and growth.demand[row, number[slot]] <= growth.room[row]


@njit(cache=True, nogil=True)
def _append(growth, number, fits, best, choice, step):  # type: ignore[no-untyped-def]
    """Append each row's choice; return the first row whose choice is no move, or -1."""
    width = number.shape[1]
    for row in range(len(number)):
        slot = choice[row] % width
        via_depot = choice[row] >= width
        node = number[row, slot]
        if not best[row] > -np.inf or node < 0:
            return row
        if len(growth.demand):
            if not (via_depot or fits[row, slot]):
                return row
            room = growth.capacity[row] if via_depot else growth.room[row]
            growth.room[row] = room - growth.demand[row, node]
        growth.order[row, step] = node
        growth.begins[row, step] = via_depot
        growth.last[row] = growth.nodes[row, node]
        close(growth.open, row, node)
    return -1
