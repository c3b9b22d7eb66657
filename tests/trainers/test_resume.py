"""A run that is stopped or killed and resumed is the same run."""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from nco.trainers.cli import TrainingCLI, train

STOPPED = "stands for whatever ends a process"


class StopBefore(pl.Callback):
    """Ends a training before a batch, counted over all epochs."""

    def __init__(self, batch: int):
        self.left = batch

    def on_train_batch_start(self, *args: Any, **kwargs: Any) -> None:
        """Count down."""
        if self.left == 0:
            raise RuntimeError(STOPPED)
        self.left -= 1


def stop(recipe: Path, options: list[str], batch: int) -> None:
    """Train and end before a batch."""
    cli = TrainingCLI(["--config", str(recipe), *options])
    cli.trainer.callbacks.insert(0, StopBefore(batch))
    with pytest.raises(RuntimeError, match=STOPPED):
        cli.fit()


def rows(root: Path) -> list[dict[str, str]]:
    """Return the log."""
    with (root / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def losses(root: Path) -> list[tuple[str, str, str]]:
    """Return step, loss and rate of all logged training steps."""
    return [(row["step"], row["train_loss"], row["learning_rate"]) for row in rows(root) if row["train_loss"]]


def same_state(one: Any, other: Any) -> bool:
    """Compare nested states, tensors bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_state, one, other))
    return bool(one == other)


def check_same_run(root: Path, unbroken: Path) -> None:
    """Compare logs and the final weights, averaged weights and optimiser states of two runs."""
    assert losses(root) == losses(unbroken)
    one, other = (torch.load(folder / "last.ckpt", weights_only=True) for folder in (root, unbroken))
    for part in ("state_dict", "current_model_state", "averaging_state", "optimizer_states", "lr_schedulers"):
        assert same_state(one[part], other[part]), part


KINDS: dict[str, tuple[list[str], tuple[int, ...]]] = {
    "plain": ([], (2, 4, 7)),
    "accumulation": (["--trainer.accumulate_grad_batches", "3", "--trainer.max_steps", "4"], (5, 8)),
    "epochs": (
        ["--trainer.limit_train_batches", "5", "--trainer.max_epochs", "3", "--trainer.max_steps", "-1"],
        (5, 12),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_as_if_unbroken(recipe: Path, tmp_path: Path, kind: str) -> None:
    """Stopped before the first checkpoint, right behind one and between two, a run ends in the same state.

    Checkpoints fall between two steps of an accumulation, and into the midst and on the end of an epoch.
    """
    options, stops = KINDS[kind]
    train(str(recipe), [*options, "--trainer.default_root_dir", str(tmp_path / "unbroken")])
    for batch in stops:
        root = tmp_path / f"stopped-{batch}"
        folder = ["--trainer.default_root_dir", str(root)]
        stop(recipe, [*options, *folder], batch)
        train(str(recipe), [*options, *folder, "--ckpt_path", "last"])
        check_same_run(root, tmp_path / "unbroken")
        if kind != "accumulation":
            assert rows(root) == rows(tmp_path / "unbroken")


def test_a_stopped_run_of_lehd_goes_on_as_if_unbroken(lehd_recipe: Path, tmp_path: Path) -> None:
    """Its stream of segments, too, goes on where it stopped."""
    train(str(lehd_recipe), ["--trainer.default_root_dir", str(tmp_path / "unbroken")])
    stop(lehd_recipe, [], 6)
    train(str(lehd_recipe), ["--ckpt_path", "last"])
    check_same_run(tmp_path / "run", tmp_path / "unbroken")


class StopAfter(pl.Callback):
    """Ends a training in good order, as a time limit does."""

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        """Ask for the end after six steps."""
        trainer.should_stop = trainer.global_step == 6


def test_a_run_that_ran_out_of_time_goes_on(recipe: Path, tmp_path: Path) -> None:
    """Training that stops between two validations saves its last state, and not the averaged weights in its place."""
    train(str(recipe), ["--trainer.default_root_dir", str(tmp_path / "unbroken")])
    cli = TrainingCLI(["--config", str(recipe)])
    cli.trainer.callbacks.insert(0, StopAfter())
    cli.fit()
    assert torch.load(cli.root / "last.ckpt", weights_only=True)["global_step"] == 6
    train(str(recipe), ["--ckpt_path", "last"])
    check_same_run(tmp_path / "run", tmp_path / "unbroken")


def test_a_killed_command_goes_on_as_if_unbroken(recipe: Path, tmp_path: Path) -> None:
    """After kill -9 at a random moment, the recipe that the run has saved leads to the end of the unbroken run."""
    options = ["--trainer.max_steps", "60", "--trainer.val_check_interval", "10", "--threads", "1"]
    train(str(recipe), [*options, "--trainer.default_root_dir", str(tmp_path / "unbroken")])
    root = tmp_path / "run"
    command = [sys.executable, "-m", "nco", "train", str(recipe), *options]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + 300
    while not (root / "last.ckpt").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(random.random() / 3)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() in (0, -signal.SIGKILL), (tmp_path / "log").read_text()
    train(str(root / "recipe.yaml"), ["--ckpt_path", "last"])
    check_same_run(root, tmp_path / "unbroken")
