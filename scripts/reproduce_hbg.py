"""Reproduce published results of HBG-GFACS and HBG-AGFN without local search, with their released weights.

Networks see the coordinates as they are in the files, not scaled to fill the unit square, since the published programs
scale nothing.

Example: python scripts/reproduce_hbg.py --weights ../shared/parity --sets ../shared/bench --out eval/results/hbg.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from nco.data.sets import read_set
from nco.instance import Instance, InstanceBatch
from nco.models.heat_network import heat_of
from nco.models.heat_pretrained import load_heat
from nco.models.sparse_graphs import nearest_count
from nco.search.aco import Colony, ColonyRule, run_rounds
from nco.search.heat import SparseHeat
from nco.search.sampling import AGFN_COIN, DEPOT_GUIDED, GREEDY, Decoder, epsilon, sample_trajectories

# Instances whose graphs go through a network together.
ROWS = 16

# What runs on the instances of a batch with its heat and random numbers: to the cost of each.
Run = Callable[[list[Instance], InstanceBatch, SparseHeat, np.random.Generator], np.ndarray]


def trajectories(count: int, decoder: Decoder) -> Run:
    """Return the run of AGFN: the best of some trajectories."""

    def run(instances, batch, heat, rng):  # type: ignore[no-untyped-def]
        return sample_trajectories(batch, heat, count, decoder, rng).costs.amin(dim=1).numpy()

    return run


def ants(rounds: int, decoder: Decoder, pheromone: str) -> Run:
    """Return the run of GFACS: rounds of 100 ants."""

    def run(instances, batch, heat, rng):  # type: ignore[no-untyped-def]
        colony = Colony(batch, heat, 100, decoder, ColonyRule(pheromone))
        return run_rounds(instances, colony, rounds, rng)[1].points[-1][1]

    return run


# Weights, set, what is done, what it gave in the published program, and how far off its mean may be.
EXPERIMENTS: list[tuple[str, str, str, Run, float, float]] = [
    ("hbg_agfn_cvrp", "cvrp200_kool1234", "greedy", trajectories(1, GREEDY), 31.962, 0.01),
    ("hbg_agfn_cvrp", "cvrp200_kool1234", "100 depot-guided", trajectories(100, DEPOT_GUIDED), 30.82, 0.05),
    ("hbg_agfn_cvrp", "cvrp200_kool1234", "100 by the 5 % coin", trajectories(100, AGFN_COIN), 31.08, 0.1),
    ("hbg_gfacs_cvrp", "cvrp200_kool1234", "10 x 100 depot-guided", ants(10, DEPOT_GUIDED, "none"), 32.29, 0.1),
    ("hbg_agfn_tsp", "tsp200_gfacs", "100 by the 5 % coin", trajectories(100, AGFN_COIN), 11.73, 0.1),
    ("hbg_gfacs_tsp", "tsp200_gfacs", "10 x 100 ants", ants(10, epsilon(0.9), "as"), 12.76, 0.1),
]


@cache
def heated(weights: Path, data: Path, limit: int | None) -> list[tuple[list[Instance], InstanceBatch, SparseHeat]]:
    """Return the instances of a set in batches, with their heats."""
    instances = read_set(data)[:limit]
    trained = load_heat(weights, instances[0].problem)
    k = nearest_count(instances[0].num_nodes, trained.sparsity)
    batches = []
    for first in range(0, len(instances), ROWS):
        some = instances[first : first + ROWS]
        scaled = InstanceBatch.from_instances(some)
        coords = torch.from_numpy(np.stack([instance.coords for instance in some])).float()  # type: ignore[misc]
        batch = InstanceBatch(coords, scaled.demand, scaled.capacity)
        with torch.inference_mode():
            batches.append((some, batch, heat_of(trained.network, batch, k)))
    return batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of NAME_weights.safetensors")
    parser.add_argument("--sets", type=Path, required=True, help="folder of the sets, SET.npz")
    parser.add_argument("--limit", type=int, help="the first instances of each set only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the records to this JSON file")
    options = parser.parse_args()
    table = Table("weights", "set", "decoding", "mean cost", "s.e.", "published", "difference", "CPU s / instance*")
    records = []
    for name, data, what, run, published, tolerance in EXPERIMENTS:
        weights, path = options.weights / f"{name}_weights.safetensors", options.sets / f"{data}.npz"
        batches = heated(weights, path, options.limit)
        began = time.process_time()
        costs = np.concatenate(
            [run(*batch, np.random.default_rng([options.seed, row])) for row, batch in enumerate(batches)]
        )
        seconds = (time.process_time() - began) / len(costs)
        record = {
            "weights": name,
            "set": data,
            "decoding": what,
            "instances": len(costs),
            "mean": float(costs.mean()),
            "standard_error": float(costs.std(ddof=1) / np.sqrt(len(costs))),
            "published": published,
            "tolerance": tolerance,
            "cpu_seconds": seconds,
        }
        records.append(record)
        print(f"{name} {data} {what}: {record['mean']:.3f}", flush=True)
        difference = record["mean"] - published
        table.add_row(
            *(name, data, what, f"{record['mean']:.3f}", f"{record['standard_error']:.3f}", f"{published:.3f}"),
            *(f"{difference:+.3f} ({'within' if abs(difference) <= tolerance else 'beyond'} {tolerance})",),
            f"{seconds:.3f}",
        )
    Console().print(table)
    print("* without the network")
    if options.out is not None:
        options.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
