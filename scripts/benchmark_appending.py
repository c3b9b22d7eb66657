"""Steps per second of greedy appending with the trees of open points against a scan of all nodes at every step.

One run measures both on the same uniform instances: with a scorer that does nothing, which leaves the search for the
nearest nodes, with distances in place of a network, and with an untrained network of a small size. Each runs for a
fixed time in a process of its own, whose peak memory is reported too.

python scripts/benchmark_appending.py [--sizes 1000 10000 100000] [--k 100] [--seconds 5] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from nco.data.generators import benchmark_instances
from nco.instance import InstanceBatch
from nco.models.lehd.network import LehdNetwork
from nco.search.appending import append_greedily
from nco.search.candidates import Candidates, CandidateScorer, nearest_first

SCORERS = ("search", "distance", "network")
SMALL = {"dim": 64, "heads": 4, "head_dim": 16, "hidden": 128, "encoder_layers": 1, "decoder_layers": 4}


class TimeIsUpError(Exception):
    """Ends a decoding."""


class Clock:
    """Counts steps from the second one on, and ends the decoding when its time is up."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.steps = -1
        self.began = self.last = 0.0

    def __call__(self, step: int) -> None:
        """Count a step."""
        self.last = time.perf_counter()
        self.steps += 1
        if self.steps == 0:
            self.began = self.last
        if self.last - self.began > self.seconds:
            raise TimeIsUpError

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / (self.last - self.began)


def append_by_scan(batch: InstanceBatch, scorer: CandidateScorer, k: int, progress: Callable[[int], None]) -> Tensor:
    """Build the tour of one TSP as published: the distances of all nodes at every step, and the k smallest of them."""
    coords = batch.coords[0]
    is_open = torch.ones(len(coords), dtype=torch.bool)
    is_open[0] = False
    tour = [0]
    for step in range(1, len(coords)):
        distance = (coords - coords[tour[-1]]).square().sum(dim=1).masked_fill_(~is_open, torch.inf)
        near = distance.topk(min(k, len(coords) - step), largest=False).indices
        mask = torch.ones(1, len(near), dtype=torch.bool)
        scores = scorer(Candidates(coords[None, 0], coords[None, tour[-1]], coords[near][None], mask))
        tour.append(int(near[scores.argmax()]))
        is_open[tour[-1]] = False
        progress(step)
    return torch.tensor([tour])


def make_scorer(name: str) -> CandidateScorer:
    if name == "search":
        return lambda candidates: candidates.mask.float()
    return nearest_first if name == "distance" else LehdNetwork("tsp", **SMALL).eval()  # type: ignore[arg-type]


def measure(size: int, method: str, scorer_name: str, k: int, seconds: float, threads: int) -> dict[str, object]:
    """Decode one uniform TSP for some time."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    scorer = make_scorer(scorer_name)
    decode = append_greedily if method == "tree" else append_by_scan
    with torch.inference_mode():
        # Kernels are compiled, or loaded from their cache, before the clock runs.
        decode(InstanceBatch(torch.rand(1, 50, 2)), scorer, k, lambda step: None)
        batch = InstanceBatch.from_instances(benchmark_instances("tsp", size, 1))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        clock = Clock(seconds)
        with contextlib.suppress(TimeIsUpError):
            decode(batch, scorer, k, clock)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "nodes": size,
        "method": method,
        "scorer": scorer_name,
        "steps": clock.steps,
        "steps_per_second": round(clock.rate, 1),
        "peak_mb": round(peak / 1024),
        "added_mb": round((peak - before) / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="nodes")
    parser.add_argument("--k", type=int, default=100, help="candidates of a step")
    parser.add_argument("--seconds", type=float, default=5.0, help="of decoding for each measurement, at most")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="write the figures there too, as JSON")
    args = parser.parse_args()
    rows = []
    # A process for each measurement, so that its peak memory is its own.
    context = multiprocessing.get_context("spawn")
    for size in args.sizes:
        for scorer in SCORERS:
            rates = []
            for method in ("scan", "tree"):
                with context.Pool(1) as pool:
                    row = pool.apply(measure, (size, method, scorer, args.k, args.seconds, args.threads))
                rows.append(row)
                rates.append(row["steps_per_second"])
                memory = f"{row['peak_mb']:,} MB at most, {row['added_mb']:,} MB of them for decoding"
                print(f"{size:>8,} nodes  {scorer:9} {method:5} {rates[-1]:>10,.0f} steps/s   {memory}", flush=True)
            print(f"{size:>8,} nodes  {scorer:9} tree / scan = {rates[1] / rates[0]:.1f}", flush=True)
    if args.out:
        figures = {"k": args.k, "threads": args.threads, "seconds": args.seconds, "rows": rows}
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
