"""``nco train``: train a model from a recipe."""

from __future__ import annotations

import argparse
import logging


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to the parser of ``nco``."""
    parser = subparsers.add_parser(
        "train",
        help="train a model from a recipe",
        description="Train a model from a recipe. Every option of the recipe can be overridden: "
        "nco train RECIPE --help lists them. --ckpt_path last goes on with a run that was stopped or killed.",
    )
    parser.add_argument("recipe", metavar="RECIPE", help="a YAML file, or the name of one on the shelf trainers/")
    parser.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help="such as --trainer.max_steps 100 or --data.labels '[labels.npz]'",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from nco.trainers.cli import train

    if not logging.getLogger().isEnabledFor(logging.DEBUG):
        # Lightning says much; what matters is in our own lines.
        for name in ("pytorch_lightning", "lightning_fabric"):
            logging.getLogger(name).setLevel(logging.WARNING)
    cli = train(args.recipe, [option for option in args.options if option != "--debug"])
    if cli.trainer.is_global_zero:
        print(f"{cli.root}: {cli.trainer.global_step} steps{_best(cli.trainer.checkpoint_callback)}")
    return 0


def _best(checkpoint) -> str:  # type: ignore[no-untyped-def]
    """Say what the best checkpoint is worth."""
    if checkpoint is None or checkpoint.best_model_score is None:
        return ", no validation"
    return f", best {checkpoint.monitor} {float(checkpoint.best_model_score):.3f}"
