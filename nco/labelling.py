"""Label many instances with a solver in worker processes: shards are written atomically, and a killed run resumes."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nco.data.label_shards import LabelShards, Manifest
from nco.data.sources import Source
from nco.errors import SolverUnavailable, UsageError
from nco.instance import Instance
from nco.solution import giant_tour
from nco.solvers import Progress, make_solver

# A shard and the numbers of its instances that have no label yet.
Task = tuple[range, list[int]]


class LabellingError(RuntimeError):
    """Some instances could not be solved; everything else is done.

    Attributes
    ----------
    failures : dict of int to str
        Reasons by the number of the instance.
    """

    def __init__(self, failures: Mapping[int, str]):
        self.failures = dict(sorted(failures.items()))
        listed = "; ".join(f"instance {number}: {reason}" for number, reason in list(self.failures.items())[:10])
        more = f"; and {len(failures) - 10} more" if len(failures) > 10 else ""
        super().__init__(f"{len(failures)} instances have no label: {listed}{more}")


@dataclass(frozen=True)
class Outcome:
    """What became of one instance: a giant tour and its cost, or the reason why there is none."""

    tour: NDArray[np.int64] | None = None
    cost: float = math.nan
    failure: str = ""


def label(
    source: Source,
    solver: str,
    options: Mapping[str, Any],
    folder: str | Path,
    *,
    seed: int,
    shard_size: int,
    time_limit: float | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> LabelShards:
    """Label all instances of a source, or what an earlier call with the same arguments has left of them.

    Each instance is solved on its own with the same seed, so its label depends neither on the shard size nor on the
    number of workers. An instance that fails leaves a gap in its shard, which the next call tries to fill.

    Parameters
    ----------
    source : Source
        Instances of one problem and size.
    solver, options
        As in :func:`nco.solvers.make_solver`.
    folder : path-like
        Where the shards go; made if needed.
    seed : int
        Given to the solver for each instance.
    shard_size : int
        Instances a file. A kill costs at most the shards under way.
    time_limit : float, optional
        Seconds per instance; with one, labels depend on the machine and its load.
    workers : int
        Number of processes to start, or how many ``executor`` has: twice as many shards are under way.
    executor : concurrent.futures.Executor, optional
        Where to solve, a cluster's for example. By default new processes of this machine, with one thread each.
    progress : callable, optional
        Called with (instances done, instances in all) at the start and after each shard.

    Returns
    -------
    LabelShards
        The finished folder.

    Raises
    ------
    UsageError
        If an argument makes no sense, or the folder holds labels of something else.
    InstanceFormatError
        If a shard that is there is corrupt or of another run, before anything is solved.
    SolverUnavailable
        If the solver cannot run.
    LabellingError
        At the end, if instances could not be solved.
    """
    if shard_size < 1 or workers < 1:
        raise UsageError(f"shard size and workers must be at least 1, not {shard_size} and {workers}")
    engine = make_solver(solver, options)  # refuses wrong names and options before anything is written
    [sample] = source.instances(0, 1)
    if sample.problem not in engine.problems:
        raise UsageError(f"solver {solver!r} does not solve a {sample.problem.upper()}")
    manifest = Manifest(
        source=source.describe(),
        count=source.count,
        problem=sample.problem,
        num_nodes=sample.num_nodes,
        solver=solver,
        options=dict(options),
        seed=seed,
        time_limit=time_limit,
        shard_size=shard_size,
    )
    shards = LabelShards.create(folder, manifest)
    # An executor that was passed in belongs to the caller and outlives this call.
    with _local_pool(workers) if executor is None else nullcontext(executor) as pool:
        failures = _fill(shards, source, pool, 2 * workers, progress)
    if failures:
        raise LabellingError(failures)
    return shards


def _fill(
    shards: LabelShards, source: Source, pool: Executor, in_flight: int, progress: Progress | None
) -> dict[int, str]:
    """Solve and write what the shards lack, ``in_flight`` shards at a time; return the failures by number."""
    manifest = shards.manifest
    shards.check_names()
    todo = [(part, missing) for part in shards.parts() if (missing := shards.missing(part))]
    done = manifest.count - sum(len(missing) for _, missing in todo)

    def submit(task: Task) -> Future[list[Outcome]]:
        instances = [source.instances(number, number + 1)[0] for number in task[1]]
        return pool.submit(solve_each, instances, manifest.solver, manifest.options, manifest.seed, manifest.time_limit)

    failures: dict[int, str] = {}
    if progress:
        progress(done, manifest.count)
    for (part, missing), outcomes in _in_flight(todo, submit, in_flight):
        numbered = list(zip(missing, outcomes, strict=True))
        failures.update((number, outcome.failure) for number, outcome in numbered if outcome.tour is None)
        shards.add(part, {number: (one.tour, one.cost) for number, one in numbered if one.tour is not None})
        done += len(missing)
        if progress:
            progress(done, manifest.count)
    return failures


def _in_flight(
    tasks: Iterable[Task], submit: Callable[[Task], Future[list[Outcome]]], limit: int
) -> Iterator[tuple[Task, list[Outcome]]]:
    """Submit tasks, at most ``limit`` at a time so that few instances are in memory; yield results as they come."""
    pending: dict[Future[list[Outcome]], Task] = {}
    queue = iter(tasks)
    try:
        while True:
            for task in islice(queue, limit - len(pending)):
                pending[submit(task)] = task
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                yield pending.pop(future), future.result()
    finally:
        for future in pending:
            future.cancel()


def solve_each(
    instances: Sequence[Instance], solver: str, options: Mapping[str, Any], seed: int, time_limit: float | None
) -> list[Outcome]:
    """Solve instances one by one; what a worker does.

    Raises
    ------
    SolverUnavailable, UsageError
        Any other error concerns one instance and is returned as its outcome.
    """
    engine = make_solver(solver, options)
    outcomes = []
    for instance in instances:
        try:
            [solution] = engine.solve([instance], seed=seed, time_limit=time_limit)
        except (SolverUnavailable, UsageError):
            raise
        except Exception as error:
            outcomes.append(Outcome(failure=f"{type(error).__name__}: {error}"))
        else:
            outcomes.append(Outcome(giant_tour(instance.problem, solution.routes), solution.cost))
    return outcomes


def _local_pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of fresh processes: forking one that has run torch or numba threads may deadlock."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)


def _start_worker() -> None:
    """Give a worker one thread, and let it end with its parent and at Ctrl-C."""
    import torch

    torch.set_num_threads(1)
    for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = "1"
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def follow_parent() -> None:
        # A pool's workers wait for tasks forever when their parent is killed: nobody is left to tell them.
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow_parent, daemon=True).start()
