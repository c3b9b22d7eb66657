"""LEHD as a solver, alone or with test-time projection (TTPL), and the same search without a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nco.errors import UsageError
from nco.instance import Instance, InstanceBatch
from nco.models.lehd.pretrained import load_lehd
from nco.projection.fusion import append_best_of_views, fused, in_pieces, projected
from nco.projection.registry import ProjectionRegistry, read_registry
from nco.search.appending import append_greedily
from nco.search.candidates import CandidateScorer, nearest_first
from nco.search.segments import SegmentRule, reconstruct_segments
from nco.solution import Solution, giant_tour, split_giant_tour
from nco.solvers.base import Progress, check_whole, make_solver, register
from nco.solvers.batched import BatchedSolver, instance_trace

GREEDY = "greedy"
# Maps besides those of the registry: the scaling of a network's own, and the registry's choice.
OWN, AUTO = "own", "auto"
FUSIONS = ("none", "mvdf", "best-of-8", "both")
# Rows that go through a network at once: more do not run faster on a CPU, and need more memory.
ROWS_AT_ONCE = 256


class AppendingSolver(BatchedSolver):
    """Tours built by appending, and improved by rebuilding segments; a subclass says what scores the candidates.

    Parameters
    ----------
    iterations : int
        Of random re-construct (RRC): each rebuilds disjoint segments of every instance once; 0 returns the greedy
        tours. With a time limit they end early.
    k : int, optional
        Candidates of a decision: so many unvisited nodes nearest to the last one. By default as in training.
    map : str
        Where the scorer is shown the nodes of a decision: "own" leaves that to the network; "none" shows them where
        they are; "auto" takes the registry's map for the problem and size; or the name of a map.
    fusion : {"none", "mvdf", "best-of-8", "both"}
        "mvdf" sums the scores of eight views of every decision; "best-of-8" builds every tour in eight views and keeps
        the shortest.
    registry : str, optional
        A file of maps by problem and size; by default the one on the shelf ``models``.
    start : str
        "greedy", or any solver's name, whose solutions are improved.
    start_options : dict, optional
        Of the solver that makes the start.
    segment : (int, int)
        Smallest and largest number of nodes that are rebuilt at once.
    single_segment : bool
        Rebuild one segment of an instance at a time, as published, instead of many.
    batch_size, device, threads
        See :class:`nco.solvers.batched.BatchedSolver`.
    """

    name = "appending"

    def __init__(
        self,
        iterations: int = 50,
        k: int | None = None,
        map: str = OWN,
        fusion: str = "none",
        registry: str | None = None,
        start: str = GREEDY,
        start_options: Mapping[str, Any] | None = None,
        segment: Sequence[int] = (4, 1_000),
        single_segment: bool = False,
        batch_size: int = 1_000,
        device: str = "auto",
        threads: int | None = None,
    ):
        super().__init__(batch_size, device, threads)
        check_whole(self.name, 0, iterations=iterations)
        check_whole(self.name, 1, k=k)
        if fusion not in FUSIONS:
            raise UsageError(f"{self.name}: unknown fusion {fusion!r}; known are {', '.join(FUSIONS)}")
        if start != GREEDY and fusion in ("best-of-8", "both"):
            raise UsageError(f"{self.name}: {fusion} is a greedy start, and the start {start!r} is none")
        if len(segment) != 2:
            raise UsageError(f"{self.name}: segment is two sizes, the smaller first, not {list(segment)}")
        self.iterations = iterations
        self.k = k
        self.map = map
        self.fusion = fusion
        self.start = start
        self.start_options = start_options
        self.segments = SegmentRule((int(segment[0]), int(segment[1])), single_segment)
        self.registry: ProjectionRegistry = read_registry(None if registry is None else Path(registry))
        if map not in (OWN, AUTO):
            self.registry.map(map)  # refuses a wrong name here and now

    def scorer(self, problem: str) -> tuple[CandidateScorer, int]:
        """Return what scores candidates of a problem, on the solver's device, and how many it was trained with."""
        raise NotImplementedError

    def map_name(self, problem: str, num_nodes: int) -> str:
        """Return the name of the map that instances of a size are shown through."""
        return self.registry.name_for(problem, num_nodes) if self.map == AUTO else self.map

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> list[Solution]:
        """Solve instances, those of one problem and size together; see :class:`nco.solvers.base.Solver`."""
        if instances:
            _load_kernels()
        return super().solve(instances, seed=seed, time_limit=time_limit, progress=progress)

    def solve_batch(
        self, instances: list[Instance], seed: tuple[int, int], time_limit: float | None, progress: Progress | None
    ) -> list[Solution]:
        """Solve instances of one problem and size; see :class:`nco.solvers.batched.BatchedSolver`."""
        started = time.perf_counter()
        problem, size = instances[0].problem, instances[0].num_nodes
        scorer, trained_k = self.scorer(problem)
        k = self.k or trained_k
        if self.fusion in ("mvdf", "both"):
            scorer = fused(scorer)
        map_name = self.map_name(problem, size)
        if map_name != OWN:
            scorer = projected(scorer, self.registry.map(map_name))
        batch = InstanceBatch.from_instances(instances, self.device)
        # Progress counts an iteration as much as a construction.
        steps = size * (1 + self.iterations)
        construction = None if progress is None else lambda appended: progress(appended, steps)
        tours = self._start(instances, batch, scorer, k, seed[0], construction)
        spent = time.perf_counter() - started
        tours, log = reconstruct_segments(
            instances,
            batch,
            tours,
            scorer,
            np.random.default_rng(seed),
            k=k,
            rule=self.segments,
            iterations=self.iterations,
            time_limit=None if time_limit is None else max(time_limit * len(instances) - spent, 0.0),
            progress=None if progress is None else lambda iteration: progress(size * (1 + iteration), steps),
        )
        routes = [split_giant_tour(problem, tour) for tour in tours.cpu().numpy()]
        seconds = (time.perf_counter() - started) / len(instances)
        info = {
            "iterations": log.iterations,
            "appended": round(log.appended / len(instances)),
            "start": self.start,
            "k": k,
            "map": map_name,
            "fusion": self.fusion,
            "device": str(self.device),
            "threads": torch.get_num_threads(),
            "batch": len(instances),
        }
        return [
            Solution.judged(
                instance,
                routes[row],
                seconds=seconds,
                solver=self.name,
                seed=seed[0],
                trace=instance_trace(log.points, row, spent, len(instances)),
                info=info,
            )
            for row, instance in enumerate(instances)
        ]

    def _start(
        self,
        instances: list[Instance],
        batch: InstanceBatch,
        scorer: CandidateScorer,
        k: int,
        seed: int,
        progress: Callable[[int], None] | None,
    ) -> Tensor:
        """Return giant tours to start from, int64 [B, L]."""
        if self.start == GREEDY:
            if self.fusion in ("best-of-8", "both"):
                return append_best_of_views(instances, batch, scorer, k, progress)
            return append_greedily(batch, scorer, k, progress)
        problem, size = instances[0].problem, instances[0].num_nodes
        length = size if problem == "tsp" else 2 * size - 1
        starts = make_solver(self.start, self.start_options).solve(instances, seed=seed)
        tours = np.stack([giant_tour(problem, start.routes, length) for start in starts])
        return torch.from_numpy(tours).to(batch.device)


@register("lehd")
class LEHD(AppendingSolver):
    """LEHD: a network appends, random re-construct improves (Luo et al., NeurIPS 2023).

    Parameters
    ----------
    weights : str, optional
        Name of released weights, a folder with weights, or a training checkpoint; by default the released ones for
        the problem.
    **options
        See :class:`AppendingSolver`.
    """

    def __init__(self, weights: str | None = None, **options: Any):
        super().__init__(**options)
        self.weights = weights
        self._loaded: dict[str, tuple[CandidateScorer, int]] = {}

    def scorer(self, problem: str) -> tuple[CandidateScorer, int]:
        """Load the network of a problem, once."""
        if problem not in self._loaded:
            trained = load_lehd(self.weights or f"lehd-{problem}-small", problem)
            network = trained.network.to(self.device)
            if self.map != OWN:
                network.window_scaling = "none"  # the map stands in for it
            self._loaded[problem] = in_pieces(network, ROWS_AT_ONCE), trained.k
        return self._loaded[problem]


@register("ttpl")
class TTPL(LEHD):
    """LEHD with test-time projection and multi-view decision fusion (TTPL, NeurIPS 2025): other defaults, no more.

    Parameters
    ----------
    map, fusion
        By default the registry's map, and "mvdf".
    **options
        See :class:`LEHD`.
    """

    def __init__(self, map: str = AUTO, fusion: str = "mvdf", **options: Any):
        super().__init__(map=map, fusion=fusion, **options)


@register("nearest-appending")
class NearestAppending(AppendingSolver):
    """The control: the same constructions, candidates and segments, with distances in place of the network."""

    def scorer(self, problem: str) -> tuple[CandidateScorer, int]:
        """Return the nearest candidate, and the candidates of the published networks."""
        return nearest_first, 100


def _load_kernels() -> None:
    """Compile the kernels, or load them: that counts against no instance's time."""
    square = Instance("square", "tsp", np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]))
    batch = InstanceBatch.from_instances([square])
    tours = append_greedily(batch, nearest_first)
    reconstruct_segments([square], batch, tours, nearest_first, np.random.default_rng(0), iterations=1)
