"""Random re-construct (RRC): rebuild segments of complete solutions by appending, and keep those that got shorter.

Section 4.3 of LEHD (Luo et al., NeurIPS 2023) rebuilds one segment at a time, the same for all instances of a batch.
Here every instance is cut into many disjoint segments of its own, rebuilt as rows of one batch, and each is accepted
on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from nco.errors import UsageError
from nco.instance import Instance, InstanceBatch
from nco.search.appending import OpenPaths, append_paths, features
from nco.search.candidates import CandidateScorer
from nco.search.lengths import InstanceLengths
from nco.search.sequences import Sequences

# A rebuilt segment must be shorter by more than rounding errors of the sum.
STRICTLY = 1e-9
# All solutions of fewer nodes, the depot included, are equally long, or there is but one customer.
SMALLEST = 3


@dataclass(frozen=True)
class SegmentRule:
    """How segments are drawn.

    Attributes
    ----------
    sizes : (int, int)
        Smallest and largest number of nodes rebuilt, drawn uniformly for every segment. The last segment of an
        instance may be smaller; a CVRP's gets smaller too, so as to end at a return to the depot.
    single : bool
        Whether to rebuild one segment of each instance at a time, as published, instead of all.
    """

    sizes: tuple[int, int] = (4, 1_000)
    single: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.sizes[0] <= self.sizes[1]:
            raise UsageError(f"segments have two sizes from 2 on, the smaller first, not {list(self.sizes)}")


@dataclass
class SegmentLog:
    """What a reconstruction did: nodes appended and segments kept, iterations, and costs over time."""

    iterations: int = 0
    appended: int = 0
    segments: int = 0
    improved: int = 0
    points: list[tuple[float, NDArray[np.float64]]] = field(default_factory=list)


@dataclass(frozen=True)
class Segments:
    """R segments of sequences: ``size`` nodes from ``begin`` on, int64 [R] each, with the number of the instance."""

    instance: NDArray[np.int64]
    begin: NDArray[np.int64]
    size: NDArray[np.int64]

    @property
    def rows(self) -> NDArray[np.int64]:
        """The instances as a column, int64 [R, 1]."""
        return self.instance[:, None]

    @property
    def columns(self) -> NDArray[np.int64]:
        """The places of the segments' nodes in their sequences, int64 [R, M], padded by the last one."""
        return self.begin[:, None] + np.minimum(np.arange(int(self.size.max())), self.size[:, None] - 1)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which columns are no padding, bool [R, M]."""
        return np.arange(int(self.size.max())) < self.size[:, None]


def reconstruct_segments(
    instances: Sequence[Instance],
    batch: InstanceBatch,
    tours: Tensor,
    scorer: CandidateScorer,
    rng: np.random.Generator,
    *,
    k: int | None = None,
    rule: SegmentRule | None = None,
    iterations: int | None = None,
    time_limit: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Tensor, SegmentLog]:
    """Improve complete solutions of same-size instances; none gets longer.

    Parameters
    ----------
    instances, batch
        The same instances, in their own units and as tensors. Lengths are compared in the instances' own metric.
    tours : int64 [B, L]
        Giant tours.
    scorer : CandidateScorer
        A network, or :func:`nco.search.candidates.nearest_first` as control.
    rng : numpy.random.Generator
    k : int, optional
        The candidates are the k nodes of the segment that are open and nearest to the last node; by default all open.
    rule : SegmentRule, optional
    iterations : int, optional
        In each, every instance is cut anew and every segment rebuilt once.
    time_limit : float, optional
        Wall-clock seconds for all instances together. One of the two limits is needed.
    progress : callable, optional
        Called with the number of iterations done.

    Returns
    -------
    int64 [B, L], SegmentLog
    """
    if iterations is None and time_limit is None:
        raise ValueError("a reconstruction needs a limit: iterations or time_limit")
    rule = rule or SegmentRule()
    started = time.perf_counter()
    problem = _Problem(instances, batch)
    solutions = Sequences.from_tours(batch.problem, tours.cpu().numpy())
    cost = problem.lengths.of_tours(tours.cpu().numpy())
    log = SegmentLog(points=[(0.0, cost.copy())])
    if batch.num_nodes < SMALLEST:
        return tours, log
    while iterations is None or log.iterations < iterations:
        if time_limit is not None and time.perf_counter() - started >= time_limit:
            break
        solutions = solutions.turned(rng)
        segments = cut_segments(solutions, rule, rng)
        change = _rebuild(problem, solutions, segments, scorer, k)
        np.add.at(cost, segments.instance, change)
        log.iterations += 1
        log.appended += int(segments.size.sum())
        log.segments += len(segments.size)
        log.improved += int((change < 0).sum())
        log.points.append((time.perf_counter() - started, cost.copy()))
        if progress is not None:
            progress(log.iterations)
    return torch.from_numpy(solutions.tours()).to(batch.device), log


class _Problem:
    """What rebuilding needs to know of the instances."""

    def __init__(self, instances: Sequence[Instance], batch: InstanceBatch):
        self.lengths = InstanceLengths(instances)
        self.nodes, self.demand, self.capacity = features(batch)
        self.device = batch.device

    def path_lengths(
        self,
        instance: NDArray[np.int64],
        ends: tuple[NDArray[np.int64], NDArray[np.int64]],
        nodes: NDArray[np.int64],
        inside: NDArray[np.bool_],
        via_depot: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return the lengths of R paths, float64 [R].

        Parameters
        ----------
        instance : int64 [R]
        ends : int64 [R], int64 [R]
            Their first and last nodes.
        nodes, inside : int64 [R, M], bool [R, M]
            The nodes between, padded.
        via_depot : bool [R, M]
            Which of them are reached via the depot.
        """
        start, end = (node[:, None] for node in ends)
        tail = np.concatenate([start, nodes], axis=1)
        head = np.concatenate([np.where(inside, nodes, end), end], axis=1)
        real = np.concatenate([np.ones_like(inside[:, :1]), inside], axis=1)
        via = np.concatenate([via_depot & inside, np.zeros_like(inside[:, :1])], axis=1)
        direct = real & ~via
        total = np.zeros(len(nodes))
        for edges, tails, heads in ((direct, tail, head), (via, tail, None), (via, None, head)):
            row = np.nonzero(edges)[0]
            ends_of_edges = (np.zeros_like(row) if node is None else node[edges] for node in (tails, heads))
            total += np.bincount(row, self.lengths(instance[row], *ends_of_edges), len(nodes))
        return total


def cut_segments(solutions: Sequences, rule: SegmentRule, rng: np.random.Generator) -> Segments:
    """Cut each solution into disjoint segments.

    A TSP's segments lie one after the other, with one node between them that stays where it is. A CVRP's begin at a
    random customer of a route, behind its predecessor, and end at the last return to the depot within their size; if
    there is none, a segment is the end of its one route.
    """
    rows, count = solutions.nodes.shape
    low, high = rule.sizes
    most = count // 2 + 1
    draws = rng.random((rows, 2, 1 if rule.single else most))
    # Where the route of each customer ends.
    route_end = np.zeros((rows, 0), np.int64)
    if solutions.begins is not None:
        is_last = np.roll(solutions.begins, -1, axis=1)
        column = np.where(is_last, np.arange(count), count)
        route_end = np.ascontiguousarray(np.minimum.accumulate(column[:, ::-1], axis=1)[:, ::-1])
    found = _cut(count, route_end, low, high, draws)
    return Segments(*np.ascontiguousarray(found.T))


@njit(cache=True, nogil=True)
def _cut(count, route_end, low, high, draws):  # type: ignore[no-untyped-def]
    is_cvrp = route_end.shape[1] > 0
    found = np.empty((draws.shape[0] * draws.shape[2], 3), np.int64)
    held = 0
    for row in range(len(draws)):
        place = 0 if is_cvrp else 1
        for number in range(draws.shape[2]):
            if place >= count:
                break
            size = low + int(draws[row, 0, number] * (high - low + 1))
            begin = place
            if is_cvrp:
                ends = route_end[row]
                begin += int(draws[row, 1, number] * (ends[place] - place + 1))
                end = ends[begin]
                while end + 1 < count and ends[end + 1] - begin < size:
                    end = ends[end + 1]
                begin = max(begin, end - size + 1)
                size = end - begin + 1
                place = end + 1
            else:
                size = min(size, count - place)
                place += size + 1
            if size > 1:
                found[held] = row, begin, size
                held += 1
    return found[:held]


def _rebuild(
    problem: _Problem, solutions: Sequences, segments: Segments, scorer: CandidateScorer, k: int | None
) -> NDArray[np.float64]:
    """Rebuild all segments and write those that got shorter into the solutions.

    Returns
    -------
    float64 [R]
        The change of length of each segment, 0 where it stays as it was.
    """
    if not len(segments.size):
        return np.zeros(0)
    instance, rows, columns, inside = segments.instance, segments.rows, segments.columns, segments.inside
    nodes = solutions.nodes[rows, columns]
    before = solutions.nodes[instance, segments.begin - 1]
    if solutions.begins is None:
        start, end = before, solutions.nodes[instance, (segments.begin + segments.size) % solutions.nodes.shape[1]]
        at_depot = np.zeros_like(instance, dtype=bool)
        old_begins = np.zeros_like(inside)
    else:
        old_begins = solutions.begins[rows, columns]
        at_depot = old_begins[:, 0].copy()
        start, end = np.where(at_depot, 0, before), np.zeros_like(before)
    paths = OpenPaths(
        problem.nodes[instance, end], problem.nodes[instance, start], problem.nodes[rows, nodes], segments.size
    )
    if problem.demand is not None and problem.capacity is not None:
        capacity = problem.capacity[instance]
        room = np.where(at_depot, capacity, capacity - _load_before(problem.demand, solutions, segments))
        paths = replace(paths, demand=problem.demand[rows, nodes], capacity=capacity, room=room)
    order, new_begins = append_paths(paths, scorer, k, problem.device)
    new_nodes = np.take_along_axis(nodes, np.maximum(order, 0), axis=1)

    def length(nodes: NDArray[np.int64], begins: NDArray[np.bool_]) -> NDArray[np.float64]:
        via_depot = begins.copy()
        via_depot[at_depot, 0] = False  # it is there already
        return problem.path_lengths(instance, (start, end), nodes, inside, via_depot)

    old_length = length(nodes, old_begins)
    change = length(new_nodes, new_begins) - old_length
    kept = change < -STRICTLY * np.maximum(old_length, 1.0)
    write = inside & kept[:, None]
    target = np.broadcast_to(rows, write.shape)[write], columns[write]
    solutions.nodes[target] = new_nodes[write]
    if solutions.begins is not None:
        new_begins[at_depot, 0] = True
        solutions.begins[target] = new_begins[write]
    return np.where(kept, change, 0.0)


def _load_before(demand: NDArray[np.int64], solutions: Sequences, segments: Segments) -> NDArray[np.int64]:
    """Return what the open route of each segment of a CVRP carries before it, int64 [R]."""
    assert solutions.begins is not None
    instance, count = segments.instance, solutions.nodes.shape[1]
    served = np.cumsum(np.take_along_axis(demand, solutions.nodes, axis=1), axis=1)
    served = np.concatenate([np.zeros_like(served[:, :1]), served], axis=1)  # before each place
    route_begin = np.maximum.accumulate(np.where(solutions.begins, np.arange(count), 0), axis=1)
    return served[instance, segments.begin] - served[instance, route_begin[instance, segments.begin]]
