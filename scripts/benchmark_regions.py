"""Insertions per second of local reconstruction with many regions at once against one: one run, same weights.

python scripts/benchmark_regions.py [--size 10000] [--seconds 20] [--weights NAME] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from nco.data.generators import benchmark_instances
from nco.solvers import make_solver


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10_000, help="nodes of the uniform TSP")
    parser.add_argument("--seconds", type=float, default=20.0, help="of reconstruction for each setting")
    parser.add_argument("--weights", help="by default the released small ones")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="write the figures there too, as JSON")
    args = parser.parse_args()
    instances = benchmark_instances("tsp", args.size, 1)
    rows = []
    for label, single in (("one region", True), ("all regions", False)):
        for name in ("l2c-insert", "cheapest-reconstruction"):
            options = {"single_region": single, "iterations": 10**9, "threads": args.threads}
            if name == "l2c-insert" and args.weights:
                options["weights"] = args.weights
            (solution,) = make_solver(name, options).solve(instances, seed=1, time_limit=args.seconds)
            start, end = solution.trace[0], solution.trace[-1]
            rate = int(str(solution.info["insertions"])) / (end[0] - start[0])
            rows.append({"solver": name, "regions": label, "insertions_per_second": round(rate, 1)})
            print(f"{name:24} {label:12} {rate:10.0f} insertions/s   {start[1]:.3f} -> {end[1]:.3f}", flush=True)
    for name in ("l2c-insert", "cheapest-reconstruction"):
        one, many = (row["insertions_per_second"] for row in rows if row["solver"] == name)
        print(f"{name}: all regions / one region = {many / one:.1f}")
    if args.out:
        figures = {"size": args.size, "threads": args.threads, "seconds": args.seconds, "rows": rows}
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
