"""L2C-Insert as a solver, and the same reconstruction with cheapest insertion in place of the network."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nco.errors import UsageError
from nco.instance import Instance, InstanceBatch
from nco.models.l2c_insert.pretrained import load_insertion
from nco.projection.fusion import fused, in_pieces, projected
from nco.projection.registry import read_registry
from nco.search.construction import construct_greedily
from nco.search.rebuild import Scorer
from nco.search.reconstruction import reconstruct
from nco.search.regions import RegionRule
from nco.search.window import WindowRule, cheapest_insertion
from nco.solution import Solution, giant_tour, split_giant_tour
from nco.solvers.base import Progress, check_whole, make_solver, register
from nco.solvers.batched import BatchedSolver, instance_trace, iterations_as_steps

GREEDY = "greedy"
# Up to this many nodes an instance is one region, as the networks saw in training.
ONE_REGION = 150
REGION_SIZE = 100
# Beyond so many nodes a greedy start costs more than it is worth. For a TSP random insertion is about as good; for a
# CVRP it is not, since the first routes fill up all over the map, and the savings heuristic is a better start.
GREEDY_LIMITS = {"tsp": (200, "random-insertion"), "cvrp": (150, "savings")}
# Rows that are worth a batch: an instance that is one region is rebuilt in so many copies, and goes on as the best.
USEFUL_ROWS = 8
# Rows that go through a network at once: more do not run faster on a CPU, and need more memory.
ROWS_AT_ONCE = 1_024


class Reconstruction(BatchedSolver):
    """Start solutions improved by local reconstruction; a subclass says what scores the positions.

    Parameters
    ----------
    iterations : int
        Each rebuilds every region of every instance once; 0 returns the start. With a time limit they end early.
    start : str
        "greedy", any solver's name (its solutions are improved), or "auto": for a TSP greedy up to 200 nodes, else
        random insertion; for a CVRP greedy up to 150 nodes, else the savings heuristic.
    start_options : dict, optional
        Of the solver that makes the start.
    holes : (int, int)
        Smallest and largest number of nodes taken out of a region.
    region_size : int, optional
        Nodes per region, about; by default 100, and up to 150 nodes the whole instance.
    single_region : bool
        Rebuild one region of an instance at a time, as published, instead of all of them.
    replicas : int, optional
        Copies of every instance that are rebuilt side by side, each iteration going on from the best one. By default
        1, or, for a few instances of one region each, as many as make 8 rows.
    order : {"nearest", "polar"}
        Which open node follows the last inserted one in a reconstruction; "polar" for the CVRP only.
    construction_order : {"nearest", "polar"}, optional
        The same for a greedy start; by default polar for the CVRP.
    batch_size : int
        Instances of one size that are solved together.
    device : str
        "auto" takes a GPU where there is one.
    threads : int, optional
        Of PyTorch on a CPU; by default what PyTorch is set to.
    """

    name = "reconstruction"

    def __init__(
        self,
        iterations: int = 200,
        start: str = "auto",
        start_options: Mapping[str, Any] | None = None,
        holes: Sequence[int] = (4, 50),
        region_size: int | None = None,
        single_region: bool = False,
        replicas: int | None = None,
        order: str = "nearest",
        construction_order: str | None = None,
        batch_size: int = 1_000,
        device: str = "auto",
        threads: int | None = None,
    ):
        super().__init__(batch_size, device, threads)
        check_whole(self.name, 0, iterations=iterations)
        check_whole(self.name, 1, region_size=region_size, replicas=replicas)
        if not (len(holes) == 2 and 1 <= holes[0] <= holes[1]):
            raise UsageError(f"{self.name}: holes are two sizes, the smaller first, not {list(holes)}")
        for chosen in (order, construction_order):
            if chosen not in ("nearest", "polar", None):
                raise UsageError(f"{self.name}: unknown order {chosen!r}; known are nearest and polar")
        self.iterations = iterations
        self.start = start
        self.start_options = start_options
        self.holes = (int(holes[0]), int(holes[1]))
        self.region_size = region_size
        self.single_region = single_region
        self.replicas = replicas
        self.order = order
        self.construction_order = construction_order

    def scorer(self, problem: str) -> tuple[Scorer, WindowRule]:
        """Return what scores positions of a problem, on the solver's device, and the window it sees."""
        raise NotImplementedError

    def solve_batch(
        self, instances: list[Instance], seed: tuple[int, int], time_limit: float | None, progress: Progress | None
    ) -> list[Solution]:
        """Solve instances of one problem and size; see :class:`nco.solvers.batched.BatchedSolver`."""
        started = time.perf_counter()
        problem, size = instances[0].problem, instances[0].num_nodes
        scorer, window = self.scorer(problem)
        batch = InstanceBatch.from_instances(instances, self.device)
        tours = self._start(instances, batch, scorer, window, seed[0])
        spent = time.perf_counter() - started
        left = None if time_limit is None else max(time_limit * len(instances) - spent, 0.0)
        region_size = self.region_size or (size if size <= ONE_REGION else REGION_SIZE)
        rule = RegionRule(region_size, self.holes, self.single_region)
        replicas = self.replicas or 1
        if self.replicas is None and rule.count(instances[0].num_customers) == 1:
            replicas = max(USEFUL_ROWS // len(instances), 1)
        tours, log = reconstruct(
            instances,
            batch,
            tours,
            scorer,
            np.random.default_rng(seed),
            window=replace(window, order=self.order),
            regions=rule,
            iterations=self.iterations,
            time_limit=left,
            replicas=replicas,
            progress=iterations_as_steps(progress, self.iterations),
        )
        routes = [split_giant_tour(problem, tour) for tour in tours.cpu().numpy()]
        seconds = (time.perf_counter() - started) / len(instances)
        info = {
            "iterations": log.iterations,
            "insertions": round(log.insertions / len(instances)),
            "replicas": replicas,
            "start": self._start_name(problem, size),
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

    def _start_name(self, problem: str, size: int) -> str:
        if self.start != "auto":
            return self.start
        limit, beyond = GREEDY_LIMITS[problem]
        return GREEDY if size <= limit else beyond

    def _start(
        self, instances: list[Instance], batch: InstanceBatch, scorer: Scorer, window: WindowRule, seed: int
    ) -> Tensor:
        """Return giant tours to start from, int64 [B, L]."""
        problem, size = instances[0].problem, instances[0].num_nodes
        name = self._start_name(problem, size)
        if name == GREEDY:
            order = self.construction_order or ("polar" if problem == "cvrp" else "nearest")
            return construct_greedily(batch, scorer, replace(window, order=order))
        length = size if problem == "tsp" else 2 * size - 1
        starts = make_solver(name, self.start_options).solve(instances, seed=seed)
        tours = np.stack([giant_tour(problem, start.routes, length) for start in starts])
        return torch.from_numpy(tours).to(batch.device)


@register("l2c-insert")
class L2CInsert(Reconstruction):
    """L2C-Insert: a network inserts, local reconstruction improves (Luo et al., NeurIPS 2025).

    Parameters
    ----------
    weights : str, optional
        Name of released weights, a folder with weights, or a training checkpoint; by default the released ones for
        the problem.
    map : str
        Where the network is shown the nodes of a window: "own" leaves that to the network; otherwise the name of a
        projection map, "none" showing them where they are.
    fusion : {"none", "mvdf"}
        "mvdf" sums the scores of eight views of every window.
    **options
        See :class:`Reconstruction`.
    """

    def __init__(self, weights: str | None = None, map: str = "own", fusion: str = "none", **options: Any):
        super().__init__(**options)
        if fusion not in ("none", "mvdf"):
            raise UsageError(f"{self.name}: unknown fusion {fusion!r}; known are none and mvdf")
        self.weights = weights
        self.projection = None if map == "own" else read_registry().map(map)
        self.fusion = fusion
        self._loaded: dict[str, tuple[Scorer, WindowRule]] = {}

    def scorer(self, problem: str) -> tuple[Scorer, WindowRule]:
        """Load the network of a problem, once."""
        if problem not in self._loaded:
            trained = load_insertion(self.weights or f"l2c-insert-{problem}-small", problem)
            network = trained.network.to(self.device)
            score: Scorer = in_pieces(network, ROWS_AT_ONCE)
            if self.fusion == "mvdf":
                score = fused(score)
            if self.projection is not None:
                network.window_scaling = "none"  # the map stands in for it
                score = projected(score, self.projection)
            self._loaded[problem] = score, trained.window
        return self._loaded[problem]


@register("cheapest-reconstruction")
class CheapestReconstruction(Reconstruction):
    """The control: the same reconstruction and windows, with cheapest insertion in place of the network."""

    def scorer(self, problem: str) -> tuple[Scorer, WindowRule]:
        """Return cheapest insertion and the small networks' window."""
        return cheapest_insertion, WindowRule(positions=16 if problem == "tsp" else 20, unvisited=1)
