"""The training of GFACS, and of HBG-GFACS."""

from __future__ import annotations

from typing import Any, ClassVar

from nco.errors import UsageError
from nco.models.balance import edge_lengths
from nco.models.fresh import FreshBatch
from nco.models.heat_training import HeatModule, Range
from nco.search.sampling import DEPOT_GUIDED, Decoder, epsilon


class GfacsModule(HeatModule):
    """Learns from sampled trajectories and from their local optima (GFACS, section 4; HBG, section 4).

    Local optima have a log Z of their own. The cost of a sampled trajectory is reshaped: it is mixed with that of its
    local optimum, ``w C' + (1 - w) C``.

    Parameters
    ----------
    ants : int
        Trajectories of each instance.
    searched_ants : int, optional
        So many of them have a local optimum, and a reshaped cost; by default all.
    cost_weight : (float, float)
        Weight w of the local optimum's cost: from the first to the second, linearly over the epochs.
    **options
        See :class:`nco.models.heat_training.HeatModule`.
    """

    KINDS: ClassVar[int] = 2
    DECODERS: ClassVar[dict[str, Decoder]] = {"tsp": epsilon(0.9), "cvrp": DEPOT_GUIDED}

    def __init__(
        self,
        problem: str,
        ants: int = 20,
        searched_ants: int | None = None,
        cost_weight: Range = (0.5, 0.99),
        **options: Any,
    ):
        super().__init__(problem=problem, ants=ants, **options)
        if searched_ants is not None and not 2 <= searched_ants <= ants:
            raise UsageError(f"searched_ants must lie between 2 and the {ants} ants, not at {searched_ants}")

    def training_step(self, batch: FreshBatch, batch_idx: int) -> None:
        """Make a step."""
        instances, rng = batch.instances, batch.rng()
        flows = self.look(self.network, instances)
        heat = flows.heat.detach()
        sampled = self.draw(instances, heat, rng)
        searched = self.hparams["searched_ants"] or self.hparams["ants"]
        nodes = self.improve(instances, heat, sampled.nodes[:, :searched], rng)
        cost, weight = edge_lengths(instances, nodes).sum(dim=-1), self.scheduled("cost_weight", batch)
        reshaped = sampled.costs.clone()
        reshaped[:, :searched] = weight * cost + (1.0 - weight) * reshaped[:, :searched]
        loss = self.loss_of(batch, flows, sampled.nodes, reshaped=reshaped) + self.loss_of(batch, flows, nodes, kind=1)
        rate = self.descend(self.optimizers(), self.network, loss, batch, self.hparams["learning_rate"])
        self.log_dict(
            {
                "train_loss": loss.detach(),
                "learning_rate": rate,
                "train_cost": sampled.costs.mean().float(),
                "train_cost_searched": cost.mean().float(),
            },
            batch_size=len(batch),
        )
