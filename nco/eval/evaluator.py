"""Instances x solvers -> records; resumes after a kill, and a failure is a record with its reason."""

from __future__ import annotations

import hashlib
import logging
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nco import __version__
from nco.errors import InfeasibleSolution, SolverUnavailable, UsageError
from nco.eval.record_log import RecordLog
from nco.eval.records import Record, failure_record, solution_record
from nco.eval.suite import FILE_REFERENCE, SolverEntry, Suite
from nco.instance import Instance, Reference
from nco.progress import Progress, part
from nco.solution import Solution
from nco.solvers import Solver, make_solver
from nco.solvers.base import SolverError

# Instances that a solver that works on batches gets at a time: a kill costs at most their work.
BATCH_SIZE = 100

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """A finished evaluation.

    Attributes
    ----------
    suite : Suite
    instances : list of Instance
    records : list of dict
        One per instance and solver that solves its problem, in this order. Beyond the fields of
        :func:`nco.eval.records.solution_record`, where ``solver`` is the label, a record has ``instance`` (number in
        ``instances``), ``reference_kind``, ``options``, ``time_limit``, ``trace`` (points of seconds and cost),
        ``info`` (what the solver states of its run), ``device``, ``threads``, ``versions`` and ``failure``. Where it
        failed, ``failure`` has the reason, ``feasible`` is False, and what only a solution has is None.
    """

    suite: Suite
    instances: list[Instance]
    records: list[Record]


def evaluate(
    suite: Suite,
    folder: str | Path,
    *,
    limit: int | None = None,
    retry_failures: bool = False,
    progress: Progress | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> Comparison:
    """Carry out a suite, or what an earlier call on the same folder has left of it.

    Each solver gets the instances whose problem it solves. What is solved together does not depend on where an
    earlier call was killed, so a resumed evaluation has the records of an unbroken one.

    Parameters
    ----------
    suite : Suite
    folder : path-like
        Where ``records.jsonl`` goes; see :class:`nco.eval.record_log.RecordLog`.
    limit : int, optional
        Take only so many instances, the first ones of the suite.
    retry_failures : bool
        Try again what an earlier call has failed on.
    progress : callable, optional
        Called with (records known, records in all).
    on_record : callable, optional
        Called with each record, those of earlier calls first.

    Raises
    ------
    UsageError
        If a solver does not exist, has no such option or solves none of the problems; if the folder belongs to
        another evaluation.
    """
    instances = suite.load()[:limit]
    engines = {entry.label: make_solver(entry.solver, entry.options) for entry in suite.solvers}
    pairs = [
        (number, entry.label)
        for number, instance in enumerate(instances)
        for entry in suite.solvers
        if instance.problem in engines[entry.label].problems
    ]
    for label in engines:
        if all(label != used for _, used in pairs):
            raise UsageError(f"suite {suite.name!r}: solver {label!r} solves none of the problems")
    description = {**suite.describe(), "instances": _fingerprint(instances)}

    def is_stale(record: Record) -> bool:
        """Tell whether to try a pair again: it has failed, or had no reference because the reference solver failed."""
        lost_reference = suite.reference != FILE_REFERENCE and record["reference"] is None
        return retry_failures and (record["failure"] is not None or lost_reference)

    with RecordLog(folder, description, forget=is_stale) as log:

        def tell(some: Sequence[tuple[int, str]]) -> None:
            if on_record:
                for record in log.select(some):
                    on_record(record)
            if progress:
                progress(len(log), len(pairs))

        tell(pairs)
        # The reference solver goes first: the gaps of all others need its costs.
        for entry in sorted(suite.solvers, key=lambda entry: entry.label != suite.reference):
            for chunk in _chunks(instances, entry, engines[entry.label]):
                todo = [number for number in chunk if log.get(number, entry.label) is None]
                if todo:
                    inner = part(progress, len(log), len(todo), len(pairs)) if progress else None
                    # All of the chunk, even where some are known: alone, the others might come out differently.
                    outcomes = _solve(engines[entry.label], [instances[row] for row in chunk], entry, suite.seed, inner)
                    by_number = dict(zip(chunk, outcomes, strict=True))
                    log.append([_record(suite, entry, log, row, instances[row], by_number[row]) for row in todo])
                    tell([(number, entry.label) for number in todo])
        return Comparison(suite, instances, log.select(pairs))


def _chunks(instances: Sequence[Instance], entry: SolverEntry, engine: Solver) -> Iterator[list[int]]:
    """Yield the numbers of instances that the solver gets together: all of one problem and size."""
    batch_size = entry.batch_size or (BATCH_SIZE if getattr(engine, "batched", False) else 1)
    groups: dict[tuple[str, int], list[int]] = {}
    for number, instance in enumerate(instances):
        if instance.problem in engine.problems:
            groups.setdefault((instance.problem, instance.num_nodes), []).append(number)
    for group in groups.values():
        for start in range(0, len(group), batch_size):
            yield group[start : start + batch_size]


def _solve(
    engine: Solver, instances: Sequence[Instance], entry: SolverEntry, seed: int, progress: Progress | None
) -> list[Solution | Exception]:
    """Return a solution or the error of each instance."""
    try:
        solutions = engine.solve(instances, seed=seed, time_limit=entry.time_limit, progress=progress)
        if len(solutions) != len(instances):
            raise RuntimeError(f"{len(solutions)} solutions for {len(instances)} instances")
        return list(solutions)
    except SolverError as failure:
        return [solution or failure for solution in failure.solutions or [None] * len(instances)]
    except Exception as error:
        _LOGGER.debug("solver %r failed", entry.label, exc_info=True)
        if isinstance(error, SolverUnavailable) or len(instances) == 1:
            return [error] * len(instances)
        # One instance may be the reason, or memory that does not suffice for all: alone, others may have a solution.
        return [_solve(engine, [instance], entry, seed, None)[0] for instance in instances]


def _judge(instance: Instance, label: str, outcome: Solution | Exception) -> Solution | Exception:
    """Judge and cost a solution here, whoever the solver is, and put its label on it."""
    if isinstance(outcome, Exception):
        return outcome
    try:
        judged = Solution.judged(instance, outcome.routes)
    except InfeasibleSolution as error:
        return error
    return replace(outcome, routes=judged.routes, cost=judged.cost, solver=label)


def _record(
    suite: Suite, entry: SolverEntry, log: RecordLog, number: int, instance: Instance, outcome: Solution | Exception
) -> Record:
    """Return the record of a pair."""
    outcome = _judge(instance, entry.label, outcome)
    solution = outcome if isinstance(outcome, Solution) else None
    if suite.reference != FILE_REFERENCE:
        instance = _referenced(instance, number, suite.reference, entry.label, solution, log)
    info: dict[str, Any] = {} if solution is None else solution.info
    record: Record = {"instance": number}
    if solution is None:
        record |= failure_record(instance, entry.label, suite.seed)
    else:
        record |= solution_record(instance, solution)
    return record | {
        "reference_kind": None if instance.reference is None else instance.reference.kind,
        "options": dict(entry.options),
        "time_limit": entry.time_limit,
        "trace": [] if solution is None else solution.trace,
        "info": info,
        # Solvers that use anything else state it.
        "device": info.get("device", "cpu"),
        "threads": info.get("threads", 1),
        "versions": {"nco": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "failure": f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, Exception) else None,
    }


def _referenced(
    instance: Instance, number: int, reference: str, label: str, solution: Solution | None, log: RecordLog
) -> Instance:
    """Return the instance with the reference solver's cost, or without a reference where it has none."""
    known = log.get(number, reference)
    cost = None if known is None else known["cost"]
    if label == reference:
        cost = None if solution is None else solution.cost
    return replace(instance, reference=None if cost is None else Reference(cost, reference))


def _fingerprint(instances: Sequence[Instance]) -> str:
    """Return a hash of all that can change a record."""
    digest = hashlib.sha256()
    for instance in instances:
        known = instance.reference
        digest.update(repr((instance.name, instance.problem, instance.metric, instance.capacity, known)).encode())
        for array in (instance.coords, instance.weights, instance.demand, instance.node_ids):
            if array is not None:
                digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
