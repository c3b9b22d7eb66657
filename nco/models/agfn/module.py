"""The training of AGFN, and of HBG-AGFN."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from nco.models.fresh import FreshBatch
from nco.models.heat_network import HeatNetwork
from nco.models.heat_training import HeatModule, Range
from nco.models.replay import move_log_probs, real_moves

# Epochs of which the first trains the discriminator, and the others the generator.
CYCLE = 5


class AgfnModule(HeatModule):
    """A generator of trajectories, and a discriminator that tells them from local optima (AGFN, section 4).

    The discriminator is a network of the generator's kind. Its score of a trajectory is the mean probability of a move
    along its own heat; it learns to give 0 to the generator's trajectories, and 1 to their local optima. The
    generator's energies are costs, plus 1 less the score.

    Parameters
    ----------
    ants : int
        Trajectories of each instance.
    inverse_temperature : (float, float)
        Exponent of the generator's heats: from the first to the second, linearly over the epochs.
    learning_rate, discriminator_rate : float
        Of the generator, and of the discriminator.
    true_share : float
        Share of the discriminator's steps that are on local optima.
    true_ants : int
        Local optima of each instance in such a step.
    **options
        See :class:`nco.models.heat_training.HeatModule`.
    """

    KINDS: ClassVar[int] = 1

    def __init__(
        self,
        problem: str,
        ants: int = 20,
        inverse_temperature: Range = (0.8, 1.0),
        learning_rate: float = 7e-4,
        discriminator_rate: float = 1e-3,
        true_share: float = 0.3,
        true_ants: int = 1,
        **options: Any,
    ):
        super().__init__(problem=problem, ants=ants, learning_rate=learning_rate, **options)
        self.discriminator = HeatNetwork(
            problem, self.hparams["depth"], self.hparams["width"], kinds=1, node_flow=False
        )

    def configure_optimizers(self) -> Any:
        """Return the optimisers of the generator and of the discriminator."""
        generator = super().configure_optimizers()
        return [generator, self.optimiser(self.discriminator, self.hparams["discriminator_rate"])]

    def score(self, batch: FreshBatch, nodes: Tensor) -> Tensor:
        """Return the discriminator's scores of trajectories, in (0, 1): float [B, h]."""
        heat = self.look(self.discriminator, batch.instances).heat
        is_real = real_moves(nodes, batch.instances.problem)
        chances = move_log_probs(batch.instances, heat, nodes).exp()
        return (chances * is_real).sum(dim=-1) / is_real.sum(dim=-1)

    def training_step(self, batch: FreshBatch, batch_idx: int) -> None:
        """Make a step of the generator or of the discriminator."""
        if self.epoch(batch)[0] % CYCLE == 1:
            self.train_discriminator(batch)
        else:
            self.train_generator(batch)

    def train_generator(self, batch: FreshBatch) -> None:
        """Make a step of the generator on trajectories of its own."""
        inverse_temperature = self.scheduled("inverse_temperature", batch)
        flows = self.look(self.network, batch.instances)
        sampled = self.draw(batch.instances, flows.heat.detach(), batch.rng(), inverse_temperature)
        with torch.no_grad():
            score = self.score(batch, sampled.nodes)
        loss = self.loss_of(batch, flows, sampled.nodes, extra=1.0 - score, inverse_temperature=inverse_temperature)
        optimiser = self.optimizers()[0]  # type: ignore[index]
        rate = self.descend(optimiser, self.network, loss, batch, self.hparams["learning_rate"])
        self.log_dict(
            {
                "train_loss": loss.detach(),
                "learning_rate": rate,
                "train_cost": sampled.costs.mean().float(),
                "train_score": score.mean(),
            },
            batch_size=len(batch),
        )

    def train_discriminator(self, batch: FreshBatch) -> None:
        """Make a step of the discriminator, on trajectories of the generator or on local optima of some."""
        rng = batch.rng()
        is_true = rng.random() < self.hparams["true_share"]
        with torch.no_grad():
            heat = self.look(self.network, batch.instances).heat
        nodes = self.draw(batch.instances, heat, rng, self.scheduled("inverse_temperature", batch)).nodes
        if is_true:
            nodes = self.improve(batch.instances, heat, nodes[:, : self.hparams["true_ants"]], rng)
        loss = (self.score(batch, nodes) - float(is_true)).square().mean()
        optimiser = self.optimizers()[1]  # type: ignore[index]
        self.descend(optimiser, self.discriminator, loss, batch, self.hparams["discriminator_rate"])
        self.log("train_loss_true" if is_true else "train_loss_false", loss.detach(), batch_size=len(batch))
