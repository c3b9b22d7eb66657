"""How long a run may be to end in time: its speed is measured, then its schedule is cut to fit."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

import pytorch_lightning as pl
import torch

from nco.errors import UsageError

# Batches before the clock starts (kernels are chosen, memory is reserved, code is compiled), and timed at most.
WARM_UP, TIMED = 10, 50
# Shares of the time there is: at most so much is spent on timing, and on validations; so much is left for what the
# timing does not see.
TIMING, VALIDATING, RESERVE = 0.1, 0.2, 0.06
MOST_VALIDATIONS = 8


class Stopwatch(pl.Callback):
    """Times the batches of a training after its first ones, and stops it.

    Parameters
    ----------
    seconds : float
        Stop after so many, if at least one batch was timed.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.begin = time.perf_counter()
        self.started = self.begin
        self.batches = -WARM_UP

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a batch."""
        self.batches += 1
        spent = time.perf_counter() - self.begin
        if self.batches <= 0 and spent > self.seconds / 2:
            self.batches = 0
        if self.batches == 0:
            self.started = _now(pl_module)
        elif self.batches >= TIMED or (self.batches > 0 and spent > self.seconds):
            trainer.should_stop = True

    def seconds_per_batch(self, pl_module: pl.LightningModule) -> float:
        """Return the mean time of a timed batch."""
        return (_now(pl_module) - self.started) / max(self.batches, 1)


def _now(pl_module: pl.LightningModule) -> float:
    """Return the time when the device has done what it was given."""
    if pl_module.device.type == "cuda":
        torch.cuda.synchronize(pl_module.device)
    return time.perf_counter()


def fit_into(
    seconds: float, model: pl.LightningModule, data: pl.LightningDataModule, options: dict[str, Any]
) -> dict[str, Any]:
    """Measure a training and return the trainer's options with which it ends within so many seconds.

    Parameters
    ----------
    seconds : float
        For measuring, training and validations together.
    model : LightningModule
        A copy: it is trained a little.
    data : LightningDataModule
    options : dict
        The trainer's, of which ``max_steps`` is not exceeded.

    Returns
    -------
    dict
        ``max_steps``, ``val_check_interval``, ``check_val_every_n_epoch`` and, should the estimate fail, ``max_time``.
    """
    started = time.perf_counter()
    watch = Stopwatch(TIMING * seconds)
    measuring = {
        **options,
        "logger": False,
        "enable_checkpointing": False,
        "max_time": None,
        "limit_val_batches": 0,
        "callbacks": [*deepcopy(options["callbacks"] or []), watch],
    }
    trainer = pl.Trainer(**measuring)
    if trainer.world_size > 1:
        raise UsageError("how many steps fit into --seconds can be measured on one device only")
    trainer.fit(model, data)
    per_batch = watch.seconds_per_batch(model)
    validating = pl.Trainer(**{**measuring, "limit_val_batches": options["limit_val_batches"], "callbacks": []})
    before = time.perf_counter()
    validating.validate(model, data, verbose=False)
    per_validation = time.perf_counter() - before
    left = seconds - (time.perf_counter() - started)
    validations = min(max(int(VALIDATING * left / per_validation), 1), MOST_VALIDATIONS)
    batches = ((1 - RESERVE) * left - validations * per_validation) / per_batch
    accumulated = trainer.accumulate_grad_batches
    steps = max(int(batches / accumulated), 1)
    if options["max_steps"] > 0:
        steps = min(steps, options["max_steps"])
    interval = max(steps // validations, 1)
    return {
        "max_steps": steps // interval * interval,
        "val_check_interval": interval * accumulated,
        "check_val_every_n_epoch": None,
        "max_time": _duration(max(int(left), 1)),
    }


def _duration(seconds: int) -> str:
    """Write a time as Lightning reads it: DD:HH:MM:SS."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days:02}:{hours:02}:{minutes:02}:{seconds:02}"
