"""What a run keeps of itself: its best and its last checkpoint, each file whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

BEST, LAST = "best.ckpt", "last.ckpt"


class RunCheckpoint(ModelCheckpoint):
    """Lightning's checkpoints, and a last one when training stops between two of them."""

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the last checkpoint: at the end of a run, of a time limit's share of it, and of any epoch."""
        super().on_train_epoch_end(trainer, pl_module)
        if not trainer.fast_dev_run:  # type: ignore[attr-defined]
            trainer.save_checkpoint(Path(self.dirpath or ".") / LAST)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save nothing: by now averaged weights may have replaced those that a resumed run must go on with."""


class WholeFileIO(TorchCheckpointIO):
    """Writes a checkpoint beside its place and moves it there, so that a kill leaves the old file or the new one.

    Lightning writes to the folder of temporary files, from where moving is a copy if that is another file system.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Save a checkpoint; see :class:`lightning_fabric.plugins.CheckpointIO`."""
        partial = f"{path}.partial"
        super().save_checkpoint(checkpoint, partial, storage_options)
        os.replace(partial, path)
