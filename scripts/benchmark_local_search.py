"""Measure the iterated local search: kicks a second by size, and how far it shortens a tour of random insertion.

Example: python scripts/benchmark_local_search.py --sizes 100 1000 --seconds 0.1 1 3 --out ils.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from nco.search.insertion import random_insertion
from nco.search.space import neighbour_lists, plane
from nco.search.tsp_local_search import iterated_local_search


def measure(num_nodes: int, seconds: float, seed: int, temperature: float) -> dict[str, float]:
    """Run one search on uniform points; lengths are in units of the square's side."""
    coords = np.random.default_rng([seed, num_nodes]).random((num_nodes, 2))
    rng = np.random.default_rng(seed)
    space = plane(coords)
    began = time.perf_counter()
    start = random_insertion(coords, rng)
    neighbours = neighbour_lists(space, 10)
    setup = time.perf_counter() - began
    cpu = time.thread_time()
    result = iterated_local_search(space, start, neighbours, rng=rng, time_limit=seconds, temperature=temperature)
    cpu = time.thread_time() - cpu
    settled = result.trace[min(1, len(result.trace) - 1)]
    return {
        "nodes": num_nodes,
        "seconds": seconds,
        "setup_seconds": setup,
        "cpu_seconds": cpu,
        "kicks": result.iterations,
        "kicks_per_cpu_second": result.iterations / cpu,
        "start": result.trace[0][1],
        "local_optimum": settled[1],
        "local_optimum_seconds": settled[0],
        "length": result.length,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.3, 1.0, 3.0], help="time limits, one run each")
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the records to this JSON file")
    options = parser.parse_args()
    measure(50, 0.01, 0, 0.5)  # compile the kernels, or load them from their cache
    table = Table(
        "nodes", "limit s", "kicks", "kicks / CPU s", "2-opt + Or-opt + 3-opt", "iterated", title="below start"
    )
    records = []
    for num_nodes in options.sizes:
        for seconds in options.seconds:
            record = measure(num_nodes, seconds, options.seed, options.temperature)
            records.append(record)
            saved = [f"{100 * (1 - record[key] / record['start']):.2f} %" for key in ("local_optimum", "length")]
            speed = f"{record['kicks_per_cpu_second']:,.0f}"
            table.add_row(f"{num_nodes:,}", f"{seconds:g}", f"{record['kicks']:,}", speed, *saved)
    Console().print(table)
    if options.out is not None:
        options.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
