"""Supervised training of the insertion network."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from nco.errors import UsageError
from nco.models.l2c_insert.data import InsertionData
from nco.models.l2c_insert.network import InsertionNetwork
from nco.models.l2c_insert.pretrained import load_insertion
from nco.models.l2c_insert.sampling import TrainingStates
from nco.models.l2c_insert.validation import HeldOut, validation_gaps

# Where a checkpoint keeps the gradients of an accumulation that is not yet a step.
GRADIENTS = "accumulated_gradients"
DECAYS = ("cosine", "exponential", "constant")


def target_loss(scores: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of each row, ``-log sum_{p in target} softmax(scores)_p``, float [R].

    Rows without a target get 0: their window does not show the label's position.
    """
    scores = scores.float()
    has_target = target.any(dim=1)
    wanted = scores.masked_fill(~target, -torch.inf).masked_fill(~has_target[:, None], 0.0)
    loss = scores.logsumexp(dim=1) - wanted.logsumexp(dim=1)
    return torch.where(has_target, loss, 0.0)


class InsertionModule(pl.LightningModule):
    """Teacher-forced next-position cross-entropy (L2C-Insert, section 3 of the paper).

    Parameters
    ----------
    problem, dim, ..., scaled_residuals
        The network, see :class:`nco.models.l2c_insert.network.InsertionNetwork`.
    learning_rate, weight_decay : float
        AdamW's.
    warmup : float
        Share of the steps over which the learning rate rises linearly.
    decay : {"cosine", "exponential", "constant"}
        From the peak to ``final_rate`` times it over the run's steps.
    final_rate : float
    validation_iterations : int
        Iterations of local reconstruction on the instances that a validation solves.
    compile : bool
        Whether to ``torch.compile`` the network for training.
    start_from : str, optional
        Weights that training starts from, of a network of the same options: anything that
        :func:`nco.models.l2c_insert.pretrained.load_insertion` loads. A resumed run goes on from its own checkpoint.
    """

    def __init__(
        self,
        problem: str,
        dim: int = 128,
        heads: int = 8,
        head_dim: int = 16,
        hidden: int = 512,
        encoder_layers: int = 1,
        decoder_layers: int = 9,
        window_scaling: str = "isotropic",
        geometry: bool = False,
        cost_prior: bool = False,
        distance_bias: bool = False,
        scaled_residuals: bool = False,
        learning_rate: float = 1e-4,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.98),
        warmup: float = 0.02,
        decay: str = "cosine",
        final_rate: float = 0.01,
        validation_iterations: int = 10,
        compile: bool = False,
        start_from: str | None = None,
    ):
        super().__init__()
        self.save_hyperparameters()
        self._gradients: dict[str, Tensor] = {}
        if decay not in DECAYS:
            raise UsageError(f"unknown decay {decay!r}; known are {', '.join(DECAYS)}")
        self.network = InsertionNetwork(
            problem,
            dim,
            heads,
            head_dim,
            hidden,
            encoder_layers,
            decoder_layers,
            window_scaling,
            geometry,
            cost_prior,
            distance_bias,
            scaled_residuals,
        )
        if start_from is not None:
            start = load_insertion(start_from, problem).network
            if start.options != self.network.options:
                raise UsageError(f"{start_from}: a network of other options: {start.options}")
            self.network.load_state_dict(start.state_dict())

    def setup(self, stage: str) -> None:
        """Check that the labels are of the network's problem, and compile it where the option asks for that.

        Callbacks are set up before: a copy that averages the weights is taken of the network as it is.
        """
        data = getattr(self.trainer, "datamodule", None)
        if isinstance(data, InsertionData) and data.training is not None:
            found, wanted = data.training.problem, self.network.problem
            if found != wanted:
                raise UsageError(f"the labels are of a {found}, the network is for a {wanted}")
        if self.hparams["compile"]:
            self.network.compile()

    def training_step(self, batch: TrainingStates, batch_idx: int) -> Tensor:
        """Return the mean loss of the states whose window shows the label."""
        losses = target_loss(self.network(batch.window), batch.target)
        loss = losses.sum() / batch.target.any(dim=1).sum().clamp(min=1)
        self.log("train_loss", loss)
        self.log("learning_rate", self.optimizers().param_groups[0]["lr"])  # type: ignore[union-attr]
        return loss

    def validation_step(self, batch: TrainingStates | HeldOut, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Log loss and accuracy of hole states and of chain states, and the gaps of solved instances.

        A label outside the window counts as wrong.
        """
        options: dict[str, Any] = {"add_dataloader_idx": False, "sync_dist": True, "on_epoch": True}
        if isinstance(batch, HeldOut):
            # Not the compiled network: every step of a search has another shape.
            greedy, final = validation_gaps(
                self.network.forward, batch, self.hparams["validation_iterations"], self.device
            )
            self.log("val_gap_greedy", greedy, batch_size=len(batch.instances), **options)
            if final is not None:
                self.log("val_gap_reconstruction", final, batch_size=len(batch.instances), **options)
            return
        kind = (InsertionData.HOLE, InsertionData.CHAIN)[dataloader_idx]
        scores = self.network(batch.window)
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
