"""An exponential moving average of the weights beside a training."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EMAWeightAveraging


class AveragedWeights(EMAWeightAveraging):
    """Lightning's exponential moving average, kept on the device that trains.

    Validations use the averaged weights. A checkpoint has them as ``state_dict``, where others look for weights, and
    those that training goes on with as ``current_model_state``.

    Parameters
    ----------
    decay : float
        Share of the old average in the new one, at each step.
    """

    def __init__(self, decay: float = 0.999):
        super().__init__(decay=decay)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Copy the model; by itself Lightning does so before the model is moved, and the copy stays on the CPU."""
        self._device = trainer.strategy.root_device
        super().setup(trainer, pl_module, stage)
