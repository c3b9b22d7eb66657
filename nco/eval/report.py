"""Tables of an evaluation, and one self-contained page with tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nco.eval.evaluator import Comparison
from nco.eval.records import Record
from nco.eval.tables import Table, format_cost, format_gap, format_seconds


@dataclass(frozen=True)
class Summary:
    """One solver on the instances of one problem and size.

    All means are over the same ``compared`` instances for every solver of the group: those that all of them have
    solved and, where any instance of the group has a reference, whose reference is known. A solver that has solved
    none of the group is left out of this rule.

    Attributes
    ----------
    problem : str
    num_nodes : int or None
        None for all sizes of the problem together.
    solver : str
    solved, failed : int
        Instances of the group.
    compared : int
    gap : float or None
        Mean percentage above the reference.
    interval : float or None
        Half the width of the 95 % confidence interval of ``gap``, see :func:`confidence_half_width`.
    cost : float or None
        Mean for each instance of one size.
    seconds : float or None
        Mean for each instance.
    """

    problem: str
    num_nodes: int | None
    solver: str
    solved: int
    failed: int
    compared: int
    gap: float | None
    interval: float | None
    cost: float | None
    seconds: float | None


def summarise(records: Sequence[Record]) -> list[Summary]:
    """Return the summaries by problem and size, and by problem alone where it has several sizes."""
    summaries = []
    for problem in dict.fromkeys(record["problem"] for record in records):
        of_problem = [record for record in records if record["problem"] == problem]
        sizes = sorted({record["num_nodes"] for record in of_problem})
        for size in sizes:
            summaries += _summarise(problem, size, [one for one in of_problem if one["num_nodes"] == size])
        if len(sizes) > 1:
            summaries += _summarise(problem, None, of_problem)
    return summaries


def _summarise(problem: str, num_nodes: int | None, records: Sequence[Record]) -> list[Summary]:
    by_solver: dict[str, dict[int, Record]] = {}
    for record in records:
        by_solver.setdefault(record["solver"], {})[record["instance"]] = record
    shared = comparable(records)
    summaries = []
    for solver, of_solver in by_solver.items():
        failed = sum(record["failure"] is not None for record in of_solver.values())
        rows = [of_solver[number] for number in shared] if failed < len(of_solver) else []
        gaps = [row["gap"] for row in rows if row["gap"] is not None]
        whole = bool(gaps) and len(gaps) == len(rows)
        summaries.append(
            Summary(
                problem,
                num_nodes,
                solver,
                solved=len(of_solver) - failed,
                failed=failed,
                compared=len(rows),
                gap=_mean(gaps) if whole else None,
                interval=confidence_half_width(gaps) if whole else None,
                cost=None if num_nodes is None else _mean([row["cost"] for row in rows]),
                seconds=_mean([row["seconds"] for row in rows]),
            )
        )
    return summaries


def comparable(records: Sequence[Record]) -> list[int]:
    """Return the numbers of the instances over which solvers can be compared; see :class:`Summary`."""
    solvers = {record["solver"] for record in records if record["failure"] is None}
    solved_by: dict[int, set[str]] = {}
    for record in records:
        if record["failure"] is None:
            solved_by.setdefault(record["instance"], set()).add(record["solver"])
    shared = [number for number, by in solved_by.items() if by == solvers]
    referenced = {record["instance"] for record in records if record["gap"] is not None}
    return sorted(referenced.intersection(shared) if referenced else shared)


def confidence_half_width(values: Sequence[float], confidence: float = 0.95) -> float | None:
    """Return half the width of Student's confidence interval of a mean, t(n-1) s / sqrt(n); None below two values."""
    if len(values) < 2:
        return None
    from scipy.stats import t

    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return float(t.ppf(0.5 + confidence / 2, len(values) - 1)) * deviation / math.sqrt(len(values))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def summary_table(records: Sequence[Record]) -> Table:
    """Return the table of :func:`summarise`."""
    columns = ("problem", "solver", "nodes", "solved", "failed", "over", "gap", "95 % ±", "cost", "time")
    table = Table(columns, title="Means over the instances that all solvers have solved", left=2)
    for one in summarise(records):
        table.rows.append(
            (
                one.problem,
                one.solver,
                "all" if one.num_nodes is None else str(one.num_nodes),
                str(one.solved),
                str(one.failed),
                str(one.compared),
                format_gap(one.gap),
                "-" if one.interval is None else f"{one.interval:.2f}",
                format_cost(one.cost),
                format_seconds(one.seconds),
            )
        )
    return table


def instance_table(records: Sequence[Record]) -> Table:
    """Return the table of all records; the reasons of failures are in :func:`failure_table`."""
    columns = ("instance", "solver", "nodes", "cost", "reference", "gap", "time")
    table = Table(columns, title="Instances", left=2)
    for record in records:
        reference = format_cost(record["reference"])
        if record["reference_kind"]:
            reference = f"{reference} ({record['reference_kind']})"
        table.rows.append(
            (
                record["name"],
                record["solver"],
                str(record["num_nodes"]),
                "failed" if record["failure"] else format_cost(record["cost"]),
                reference,
                format_gap(record["gap"]),
                format_seconds(record["seconds"]),
            )
        )
    return table


def failure_table(records: Sequence[Record]) -> Table:
    """Return the table of all failures with their reasons."""
    table = Table(("instance", "solver", "reason"), title="Failures", left=3)
    for record in records:
        if record["failure"]:
            table.rows.append((record["name"], record["solver"], " ".join(record["failure"].split())))
    return table


def result_tables(records: Sequence[Record]) -> list[Table]:
    """Return the tables of all records and, where there are any, of the failures."""
    failures = failure_table(records)
    return [instance_table(records), *([failures] if failures.rows else [])]


def conditions(comparison: Comparison) -> str:
    """Return one line on what the records were made with."""
    versions = {
        ", ".join(f"{name} {version}" for name, version in one["versions"].items()) for one in comparison.records
    }
    devices = {record["device"] for record in comparison.records}
    threads = {str(record["threads"]) for record in comparison.records}
    return (
        f"Seed {comparison.suite.seed}; {' / '.join(sorted(versions))}; device: {', '.join(sorted(devices))}; "
        f"threads: {', '.join(sorted(threads))}."
    )


def write_markdown(comparison: Comparison, path: str | Path) -> None:
    """Write all tables as Markdown."""
    records = comparison.records
    parts = [
        f"## {comparison.suite.name}",
        conditions(comparison),
        summary_table(records).markdown(),
        *(table.markdown() for table in result_tables(records)),
    ]
    Path(path).write_text("\n\n".join(parts) + "\n", encoding="utf-8")
