"""How far a training is, on stderr: a bar on a terminal, plain lines elsewhere, and a line per validation."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

import pytorch_lightning as pl

from nco.progress import Progress, track


class TrainingProgress(pl.Callback):
    """Shows steps done, and the figures of each validation."""

    def __init__(self) -> None:
        self._shown = ExitStack()
        self._report: Progress | None = None
        self._steps = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin to show steps."""
        if trainer.is_global_zero:
            self._steps = int(trainer.estimated_stepping_batches)
            self._report = self._shown.enter_context(track(self._steps, "train", every=30.0))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Show the number of steps done."""
        if self._report is not None:
            self._report(trainer.global_step, self._steps)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show what the validation found."""
        if trainer.is_global_zero and not trainer.sanity_checking:
            figures = [
                f"{name} {float(value):.4g}"
                for name, value in sorted(trainer.callback_metrics.items())
                if name.startswith("val_")
            ]
            print(f"step {trainer.global_step}:", ", ".join(figures), file=sys.stderr, flush=True)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop showing."""
        self._shown.close()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Stop showing."""
        self._shown.close()
