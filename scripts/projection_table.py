"""The table of projections: maps x fusions on uniform and clustered instances, gap, seconds and peak memory.

Every cell is an evaluation of its own in a process of its own, kept in a folder; a killed run goes on where it was when
it is started again with the same arguments. Uniform instances, and their references, are those of the shelf
data/uniform where it has the size; other references are computed, once, by the solver that --reference-tsp or
--reference-cvrp names, within --reference-seconds.

python scripts/projection_table.py --out runs/projections [--cases tsp-uniform-1000 cvrp-clustered-10000]
    [--maps none seed published] [--fusions none mvdf] [--count 4] [--weights-tsp NAME]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import nco
from nco.errors import UsageError
from nco.eval.evaluator import evaluate
from nco.eval.records import Record
from nco.eval.suite import Benchmark, DataFiles, Generated, InstanceSource, SolverEntry, Suite

DISTRIBUTIONS = ("uniform", "clustered")
FUSIONS = ("none", "mvdf", "best-of-8", "both")
# "published" is the map published for the size; "found" the one that --found names.
MAPS = ("own", "none", "seed", "published", "found")
DEFAULT_CASES = [
    f"{problem}-{distribution}-{size}"
    for problem in ("tsp", "cvrp")
    for distribution, sizes in (("uniform", (1_000, 5_000, 10_000)), ("clustered", (1_000, 10_000)))
    for size in sizes
]
CLUSTERED_SEED = 1003


@dataclass(frozen=True)
class Case:
    """Some instances of one problem, distribution and size."""

    problem: str
    distribution: str
    size: int
    count: int

    @classmethod
    def parse(cls, text: str, count: int) -> Case:
        """Read ``problem-distribution-size``."""
        problem, distribution, size = (*text.split("-"), "", "")[:3]
        if problem not in ("tsp", "cvrp") or distribution not in DISTRIBUTIONS or not size.isdigit():
            raise UsageError(f"a case is problem-distribution-size, such as tsp-uniform-1000, not {text!r}")
        return cls(problem, distribution, int(size), count)

    def __str__(self) -> str:
        return f"{self.problem}-{self.distribution}-{self.size}"

    @property
    def capacity(self) -> int | None:
        """Of a CVRP: as in TTPL's test sets."""
        if self.problem == "tsp":
            return None
        return 200 if self.size <= 1_000 else 300

    @property
    def source(self) -> InstanceSource:
        """Where the instances come from."""
        if self.distribution == "uniform":
            path = nco.shelf("data") / "uniform" / f"{self.problem}{self.size}.npz"
            if path.is_file():
                return DataFiles(path, limit=self.count)
            return Benchmark(self.problem, self.size, self.count, self.capacity)
        options = {} if self.capacity is None else {"capacity": self.capacity}
        return Generated("clustered", self.problem, self.size, self.count, CLUSTERED_SEED, options)

    @property
    def published_map(self) -> str:
        """The map that was published for the size, or for the largest smaller one."""
        return self.problem + ("1k" if self.size < 5_000 else "5k" if self.size < 10_000 else "10k")


def costs_of(suite: Suite, folder: Path) -> list[Record]:
    """Evaluate a suite of one solver and return its records; a failure ends the run."""
    records = evaluate(suite, folder, retry_failures=True).records
    for record in records:
        if record["failure"] is not None:
            raise UsageError(f"{suite.name}, {record['name']}: {record['failure']}")
    return records


def references_of(case: Case, solver: SolverEntry, folder: Path) -> list[float]:
    """Return the reference cost of every instance."""
    stored = [instance.reference for instance in case.source.load()]
    if all(reference is not None for reference in stored):
        return [reference.cost for reference in stored if reference is not None]
    records = costs_of(Suite(f"{case}-reference", (case.source,), (solver,)), folder / str(case) / "reference")
    return [record["cost"] for record in records]


def run_cell(case: Case, entry: SolverEntry, folder: Path) -> tuple[list[float], float, int]:
    """Return the costs of all instances, seconds for each, and the peak memory in MB; for a process of its own."""
    peak_file = folder / "peak_mb.json"
    records = costs_of(Suite(f"{case} {entry.label}", (case.source,), (entry,)), folder)
    if not peak_file.is_file():
        peak_file.write_text(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024))
    seconds = fmean(record["seconds"] for record in records)
    return [record["cost"] for record in records], seconds, json.loads(peak_file.read_text())


def entries_of(case: Case, args: argparse.Namespace) -> Iterable[tuple[str, str, SolverEntry]]:
    """Yield the rows of a case: the map as it is called in the table, the fusion, and the solver."""
    for kind in args.maps:
        name = {"published": case.published_map, "found": args.found}.get(kind, kind)
        if name is None:
            continue
        for fusion in args.fusions:
            options = {"map": name, "fusion": fusion, "iterations": args.iterations, "threads": args.threads}
            weights = args.weights_tsp if case.problem == "tsp" else args.weights_cvrp
            options |= {"weights": weights} if weights else {}
            options |= {"registry": str(args.registry)} if args.registry else {}
            options |= {"k": args.k} if args.k else {}
            yield kind, fusion, SolverEntry("lehd", f"{kind}-{fusion}", options, batch_size=args.count)


def table(rows: Sequence[dict[str, object]]) -> str:
    """Return the rows as a table in Markdown."""
    lines = ["| case | map | fusion | cost | gap % | s | MB |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        shown = f"{row['cost']:.3f} | {row['gap']:.2f} | {row['seconds']:.1f} | {row['peak_mb']}"
        lines.append(f"| {row['case']} | {row['map']} | {row['fusion']} | {shown} |")
    return "\n".join(lines) + "\n"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the evaluations and the table")
    parser.add_argument("--cases", nargs="+", default=DEFAULT_CASES, help="problem-distribution-size")
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=MAPS)
    parser.add_argument("--fusions", nargs="+", choices=FUSIONS, default=FUSIONS)
    parser.add_argument("--count", type=int, default=4, help="instances of every case")
    parser.add_argument("--iterations", type=int, default=0, help="of random re-construct after the greedy tours")
    parser.add_argument("--k", type=int, help="candidates of a decision; by default as in training")
    parser.add_argument("--found", help="name of the map that a search has found, in the registry")
    parser.add_argument("--registry", type=Path, help="a file of maps; by default the one on the shelf")
    parser.add_argument("--weights-tsp", help="by default the released small ones")
    parser.add_argument("--weights-cvrp", help="by default the released small ones")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--reference-tsp", default="ils", help="solver of references that are not stored")
    parser.add_argument("--reference-cvrp", default="hgs")
    parser.add_argument("--reference-seconds", type=float, default=60.0, help="for each instance")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    rows: list[dict[str, object]] = []
    context = multiprocessing.get_context("spawn")
    for case in (Case.parse(text, args.count) for text in args.cases):
        name = args.reference_tsp if case.problem == "tsp" else args.reference_cvrp
        solver = SolverEntry(name, f"{name} {args.reference_seconds:g} s", time_limit=args.reference_seconds)
        references = references_of(case, solver, args.out)
        for kind, fusion, entry in entries_of(case, args):
            with context.Pool(1) as pool:
                costs, seconds, peak = pool.apply(run_cell, (case, entry, args.out / str(case) / entry.label))
            gap = fmean(100 * (cost / reference - 1) for cost, reference in zip(costs, references, strict=True))
            row = {"case": str(case), "map": kind, "fusion": fusion, "cost": fmean(costs), "gap": gap}
            rows.append({**row, "seconds": seconds, "peak_mb": peak, "instances": len(costs)})
            print(table(rows[-1:]).splitlines()[-1], flush=True)
            (args.out / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
            (args.out / "table.md").write_text(table(rows))


if __name__ == "__main__":
    main()
