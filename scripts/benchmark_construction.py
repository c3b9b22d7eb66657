"""Measure sampled construction and local search: trajectories and local searches a second, by threads, with memory.

A run is 100 trajectories along a heat of inverse lengths, on a graph of a fifth of the nodes or 100 neighbours, and is
repeated until the time is up; the local searches start from them. Ratios are those to one thread in the same run.
Memory is what numpy allocates at most during a run, over what there was before.

Example: python scripts/benchmark_construction.py --seconds 2 --out construction.json
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from nco.data.generators import benchmark_instances
from nco.instance import Instance, InstanceBatch
from nco.search.guided import TourSearch
from nco.search.heat import distance_heat
from nco.search.route_search import RouteSearch
from nco.search.sampling import DEPOT_GUIDED, SAMPLE, MoveWeights, sample_nodes
from nco.search.space import space_of

CASES = (("cvrp", 200), ("cvrp", 1000), ("tsp", 1000))
TRAJECTORIES = 100


def per_second(run: Callable[[], Any], count: int, seconds: float) -> tuple[float, float, float]:
    """Return how many a second by the wall clock and by CPU time, and the peak of memory in MiB."""
    run()  # compiles, or loads what is compiled
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    began, cpu, done = time.perf_counter(), time.process_time(), 0
    while done == 0 or time.perf_counter() - began < seconds:
        run()
        done += count
    return done / (time.perf_counter() - began), done / (time.process_time() - cpu), peak


def local_search(instance: Instance, threads: int) -> TourSearch | RouteSearch:
    """Return the search of an instance."""
    if instance.problem == "tsp":
        return TourSearch([space_of(instance)], threads=threads)
    return RouteSearch([space_of(instance)], [instance.demand], [instance.capacity], threads=threads)  # type: ignore[list-item]


def measure(problem: str, size: int, threads: int, seconds: float) -> list[dict[str, Any]]:
    """Measure one instance."""
    [instance] = benchmark_instances(problem, size, 1, 50 if problem == "cvrp" else None)
    batch = InstanceBatch.from_instances([instance])
    weights = MoveWeights.from_heat(distance_heat(batch, min(size // 5, 100)))
    records = []

    def record(what: str, run: Callable[[], Any], count: int) -> None:
        wall, cpu, memory = per_second(run, count, seconds)
        records.append(
            {
                "problem": problem,
                "size": size,
                "what": what,
                "threads": threads,
                "per_second": wall,
                "per_cpu_second": cpu,
                "peak_mib": memory,
            }
        )

    for name, decoder in (("sampled", SAMPLE), ("depot-guided", DEPOT_GUIDED))[: 1 + (problem == "cvrp")]:

        def construct(decoder=decoder):  # type: ignore[no-untyped-def]
            return sample_nodes(batch, weights, TRAJECTORIES, decoder, np.random.default_rng(1), threads=threads)

        record(f"{name} trajectories", construct, TRAJECTORIES)
    search, tours = local_search(instance, threads), construct()[:, :20]
    record("local searches", lambda: search(tours, np.random.default_rng(1)), tours.shape[1])
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--out", type=Path, help="write the records to this JSON file")
    options = parser.parse_args()
    table = Table("instance", "what", "threads", "a second", "ratio", "a CPU second", "MiB at most")
    records: list[dict[str, Any]] = []
    for problem, size in CASES:
        single: dict[str, float] = {}
        for threads in options.threads:
            for entry in measure(problem, size, threads, options.seconds):
                base = single.setdefault(entry["what"], entry["per_second"])
                entry["ratio"] = entry["per_second"] / base
                records.append(entry)
                table.add_row(
                    *(f"{problem.upper()}{size}", entry["what"], str(threads), f"{entry['per_second']:,.0f}"),
                    *(f"{entry['ratio']:.2f}", f"{entry['per_cpu_second']:,.0f}", f"{entry['peak_mib']:.1f}"),
                )
    Console().print(table)
    if options.out is not None:
        options.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
