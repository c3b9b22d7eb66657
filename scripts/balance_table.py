"""The table of balance conditions: TB, DB and hybrid x backward policies x decoders, over seeds, with equal budgets.

All runs of a seed see the same instances for as many steps, and their last weights count. A killed table goes on where
it was when it is started again with the same arguments. Costs are means over fixed instances of the best of --ants
trajectories; +- is half the 95 % confidence interval over seeds.

python scripts/balance_table.py --out runs/balance --recipe hbg-agfn-cvrp [--steps 1000] [--seeds 1 2 3]
    [--options --data.batch_size 5]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from nco.data.generators import Generator
from nco.eval.report import confidence_half_width
from nco.instance import InstanceBatch
from nco.models.heat_network import heat_of
from nco.models.heat_pretrained import load_heat
from nco.models.sparse_graphs import nearest_count
from nco.search.sampling import AGFN_COIN, DEPOT_GUIDED, SAMPLE, sample_trajectories
from nco.solution import routes_cost, split_giant_tour
from nco.trainers.cli import TrainingCLI, train
from nco.trainers.recipes import find_recipe

# Trajectory balance has no steps, so no backward policy of steps either; and a TSP's steps have only one.
LOSSES = (("tb", "exact"), ("db", "paper"), ("db", "exact"), ("hybrid", "paper"), ("hybrid", "exact"))
DECODERS = {"sample": SAMPLE, "agfn": AGFN_COIN, "depot-guided": DEPOT_GUIDED}
EVALUATION_SEED = 1234


def train_cell(args: argparse.Namespace, balance: str, backward: str, seed: int) -> Path:
    """Train, or go on with a training, and return its last checkpoint."""
    root = args.out / f"{balance}-{backward}-{seed}"
    options = ["--trainer.default_root_dir", str(root), "--trainer.max_steps", str(args.steps)]
    options += ["--trainer.val_check_interval", str(max(args.steps // 4, 1)), "--seed_everything", str(seed)]
    options += ["--data.seed", str(seed), "--model.balance", balance, "--model.backward", backward]
    last = root / "last.ckpt"
    if not last.is_file() or torch.load(last, weights_only=True)["global_step"] < args.steps:
        train(args.recipe, [*options, *args.options, "--ckpt_path", "last"])
    return last


def evaluate_cell(checkpoint: Path, generator: Generator, decoder: str, count: int, ants: int) -> float:
    """Return the mean cost of the best trajectories of fixed instances, in their own units."""
    trained = load_heat(checkpoint, generator.problem)
    instances = generator(np.random.default_rng(EVALUATION_SEED), count)
    batch = InstanceBatch.from_instances(instances)
    k = nearest_count(instances[0].num_customers, trained.sparsity)
    with torch.inference_mode():
        heat = heat_of(trained.network, batch, k)
    rng = np.random.default_rng(EVALUATION_SEED)
    found = sample_trajectories(batch, heat, ants, DECODERS[decoder], rng, threads=torch.get_num_threads())
    best = found.nodes[torch.arange(count), found.costs.argmin(dim=1)].numpy()
    return fmean(
        routes_cost(instance, split_giant_tour(instance.problem, tour))
        for instance, tour in zip(instances, best, strict=True)
    )


def table(rows: Sequence[dict[str, object]]) -> str:
    """Return the rows, one for each seed, as a table in Markdown, with means over seeds."""
    lines = ["| balance | backward | decoder | seeds | cost | +- |", "|---|---|---|---|---|---|"]
    for key in dict.fromkeys((row["balance"], row["backward"], row["decoder"]) for row in rows):
        costs = [float(str(row["cost"])) for row in rows if (row["balance"], row["backward"], row["decoder"]) == key]
        width = confidence_half_width(costs)
        shown = "" if width is None else f"{width:.3f}"
        lines.append(f"| {' | '.join(map(str, key))} | {len(costs)} | {fmean(costs):.3f} | {shown} |")
    return "\n".join(lines) + "\n"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs and the table")
    parser.add_argument("--recipe", default="hbg-agfn-cvrp", help="of HBG-GFACS or HBG-AGFN, a name or a file")
    parser.add_argument("--steps", type=int, default=1000, help="of every training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--decoders", nargs="+", choices=DECODERS, help="by default all that the problem has")
    parser.add_argument("--count", type=int, default=128, help="instances of the evaluation")
    parser.add_argument("--ants", type=int, default=100, help="trajectories of each")
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="further options of the recipe, last")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    options = ["--trainer.default_root_dir", str(args.out / "none"), *args.options]
    generator = TrainingCLI(["--config", str(find_recipe(args.recipe)), *options]).datamodule.generator
    decoders = args.decoders or [name for name in DECODERS if name != "depot-guided" or generator.problem == "cvrp"]
    losses = [loss for loss in LOSSES if generator.problem == "cvrp" or loss[1] == "exact"]
    rows: list[dict[str, object]] = []
    for seed in args.seeds:
        for balance, backward in losses:
            began = time.perf_counter()
            checkpoint = train_cell(args, balance, backward, seed)
            seconds = time.perf_counter() - began
            for decoder in decoders:
                cost = evaluate_cell(checkpoint, generator, decoder, args.count, args.ants)
                key = {"balance": balance, "backward": backward, "decoder": decoder, "seed": seed}
                rows.append({**key, "cost": cost, "seconds": round(seconds, 1), "steps": args.steps})
                print(f"{balance:6} {backward:5} {decoder:12} seed {seed}: {cost:.3f}", flush=True)
            (args.out / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
            (args.out / "table.md").write_text(table(rows))


if __name__ == "__main__":
    main()
