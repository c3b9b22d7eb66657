"""Supervised training of a network that chooses a move: the loss, the schedule, and exact resuming."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn

from nco.errors import UsageError
from nco.models.streams import LabelledData, States

# Where a checkpoint keeps the gradients of an accumulation that is not yet a step.
GRADIENTS = "accumulated_gradients"
DECAYS = ("cosine", "exponential", "constant")


def target_loss(scores: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of each row, ``-log sum_{p in target} softmax(scores)_p``, float [R].

    Rows without a target get 0: what the network sees there does not show the label's move.
    """
    scores = scores.float()
    has_target = target.any(dim=1)
    wanted = scores.masked_fill(~target, -torch.inf).masked_fill(~has_target[:, None], 0.0)
    loss = scores.logsumexp(dim=1) - wanted.logsumexp(dim=1)
    return torch.where(has_target, loss, 0.0)


class SupervisedModule(pl.LightningModule):
    """Cross-entropy of labelled moves, AdamW, and a learning rate that rises and decays over the run's steps.

    A subclass sets ``network``, with its ``problem`` and ``options``, and implements :meth:`scores`, :meth:`solve` and
    :meth:`load`. Its saved hyper-parameters have ``learning_rate``, ``weight_decay``, ``betas``, ``warmup``,
    ``decay``, ``final_rate``, ``compile`` and ``start_from``.

    Attributes
    ----------
    KINDS : tuple of str
        Names of the kinds of states that are validated, one data loader each; later loaders hold instances to solve.
    """

    KINDS: tuple[str, ...] = ()
    network: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self._gradients: dict[str, Tensor] = {}

    def scores(self, batch: Any) -> Tensor:
        """Return the network's scores of the moves of training states, float [R, T]."""
        raise NotImplementedError

    def solve(self, batch: Any) -> dict[str, float]:
        """Solve held-out instances, and return figures to log by name."""
        raise NotImplementedError

    def load(self, source: str) -> nn.Module:
        """Load a trained network of the same problem."""
        raise NotImplementedError

    def check_decay(self) -> None:
        """Check the option ``decay``."""
        if self.hparams["decay"] not in DECAYS:
            raise UsageError(f"unknown decay {self.hparams['decay']!r}; known are {', '.join(DECAYS)}")

    def setup(self, stage: str) -> None:
        """Check that the labels are of the network's problem, load the weights to start from, and compile.

        Callbacks are set up before: a copy that averages the weights is taken of the network that is not compiled. The
        average begins with the first step.
        """
        data = getattr(self.trainer, "datamodule", None)
        if isinstance(data, LabelledData) and data.training is not None:
            found, wanted = data.training.problem, self.network.problem
            if found != wanted:
                raise UsageError(f"the labels are of a {found}, the network is for a {wanted}")
        source = self.hparams["start_from"]
        if source is not None:
            start = self.load(source)
            if start.options != self.network.options:
                raise UsageError(f"{source}: a network of other options: {start.options}")
            self.network.load_state_dict(start.state_dict())
        if self.hparams["compile"]:
            self.network.compile()

    def training_step(self, batch: States, batch_idx: int) -> Tensor:
        """Return the mean loss of the states that show the label."""
        losses = target_loss(self.scores(batch), batch.target)
        loss = losses.sum() / batch.target.any(dim=1).sum().clamp(min=1)
        self.log("train_loss", loss)
        self.log("learning_rate", self.optimizers().param_groups[0]["lr"])  # type: ignore[union-attr]
        return loss

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Log loss and accuracy of each kind of states, and the figures of solved instances.

        A label that a state does not show counts as wrong.
        """
        options: dict[str, Any] = {"add_dataloader_idx": False, "sync_dist": True, "on_epoch": True}
        if dataloader_idx >= len(self.KINDS):
            for name, value in self.solve(batch).items():
                self.log(f"val_{name}", value, batch_size=len(batch), **options)
            return
        kind = self.KINDS[dataloader_idx]
        scores = self.scores(batch)
        hit = batch.target.gather(1, scores.argmax(dim=1, keepdim=True))
        shown = int(batch.target.any(dim=1).sum())
        loss = target_loss(scores, batch.target).sum() / max(shown, 1)
        self.log(f"val_loss_{kind}", loss, batch_size=max(shown, 1), **options)
        self.log(f"val_accuracy_{kind}", hit.float().mean(), batch_size=len(batch), **options)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the gradients accumulated so far, where the checkpoint falls between two steps."""
        batches = self.trainer.fit_loop.batch_idx + 1
        if batches % self.trainer.accumulate_grad_batches:
            checkpoint[GRADIENTS] = {
                name: parameter.grad for name, parameter in self.named_parameters() if parameter.grad is not None
            }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the gradients that the checkpoint kept (exact on one device: each has gradients of its own)."""
        self._gradients = checkpoint.get(GRADIENTS, {})

    def on_train_start(self) -> None:
        """Go on accumulating where a checkpoint stopped; before the start, Lightning clears all gradients."""
        for name, gradient in self._gradients.items():
            parameter = self.get_parameter(name)
            parameter.grad = gradient.to(parameter.device)
        self._gradients = {}

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Return AdamW with linear warm-up and decay, counted in steps.

        Raises
        ------
        UsageError
            If the trainer has no number of steps that the decay could end with.
        """
        options = self.hparams
        optimizer = torch.optim.AdamW(
            self.network.parameters(),
            lr=options["learning_rate"],
            betas=tuple(options["betas"]),
            weight_decay=options["weight_decay"],
        )
        steps = self.trainer.estimated_stepping_batches
        if not 0 < steps < math.inf:
            raise UsageError("the learning rate is scheduled over trainer.max_steps, which must be set")
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.rate_factor(step, int(steps)))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def rate_factor(self, step: int, steps: int) -> float:
        """Return the learning rate of a step as a multiple of the peak."""
        warmup = max(int(self.hparams["warmup"] * steps), 1)
        if step < warmup:
            return (step + 1) / warmup
        progress = min((step - warmup) / max(steps - warmup, 1), 1.0)
        final = self.hparams["final_rate"]
        if self.hparams["decay"] == "cosine":
            return final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2
        if self.hparams["decay"] == "exponential":
            return final**progress
        return 1.0
