"""What the trainings of GFACS and AGFN share: schedules, losses of trajectories, local search, steps and validation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor

from nco.errors import UsageError
from nco.instance import InstanceBatch
from nco.models.balance import Balance, state_flows, transitions
from nco.models.fresh import FreshBatch, FreshInstances
from nco.models.heat_network import Flows, HeatNetwork
from nco.models.heat_pretrained import load_heat
from nco.models.replay import move_log_probs
from nco.models.schedules import cosine, linear, logarithmic
from nco.models.sparse_graphs import nearest_count
from nco.search.heat import SparseHeat, nearest_graph
from nco.search.sampling import AGFN_COIN, DEPOT_GUIDED, SAMPLE, Decoder, Trajectories, sample_trajectories

Range = tuple[float, float]


class HeatModule(pl.LightningModule):
    """A GFlowNet over trajectories along a heat; a subclass says which trajectories it learns from.

    All that a step draws follows from its batch, so a resumed run is the same run. A step of the trainer is a step of
    one optimiser, and ``epoch_steps`` of them are an epoch of the schedules, whatever the trainer calls an epoch.

    Parameters
    ----------
    problem : {"tsp", "cvrp"}
    depth, width : int
        Of the network, see :class:`nco.models.heat_network.HeatNetwork`.
    sparsity : int
        One neighbour of each node for so many nodes.
    balance : {"tb", "db", "hybrid"}
        Trajectory balance (GFACS, AGFN), detailed balance, or both (HBG).
    backward : {"paper", "exact"}
        Backward policy of detailed balance, see :func:`nco.models.balance.log_backward_moves`.
    ants : int
        Trajectories of each instance, at least 2.
    beta : (float, float)
        Inverse temperature of the solutions: it rises with the logarithm of the epoch.
    db_weight : (float, float)
        Weight of detailed balance in the hybrid: from the first to the second, linearly over the epochs.
    learning_rate, weight_decay : float
        AdamW's.
    final_rate : float
        The learning rate falls to this share by half a cosine.
    gradient_clip : float
        Largest norm of a gradient.
    epoch_steps : int
    perturbations : int
        Perturbations by the heat of each tour in local search.
    validation_ants : int
        Trajectories of each instance at a validation, of which the best counts.
    start_from : str, optional
        Weights that training starts from, of a network of the same options: anything that
        :func:`nco.models.heat_pretrained.load_heat` loads. A resumed run goes on from its own checkpoint.
    """

    # Kinds of trajectories, and how validations decode.
    KINDS: ClassVar[int]
    DECODERS: ClassVar[dict[str, Decoder]] = {"tsp": AGFN_COIN, "cvrp": DEPOT_GUIDED}

    def __init__(
        self,
        problem: str,
        depth: int = 12,
        width: int = 32,
        sparsity: int = 5,
        balance: str = "hybrid",
        backward: str = "exact",
        ants: int = 20,
        beta: Range = (200.0, 1000.0),
        db_weight: Range = (1.0, 1.0),
        learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        final_rate: float = 0.1,
        gradient_clip: float = 3.0,
        epoch_steps: int = 20,
        perturbations: int = 5,
        validation_ants: int = 20,
        start_from: str | None = None,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        for name, least in (("ants", 2), ("sparsity", 1), ("epoch_steps", 1), ("perturbations", 0)):
            if self.hparams[name] < least:
                raise UsageError(f"{name} must be at least {least}, not {self.hparams[name]}")
        try:
            self.balance = Balance(balance, backward)
            self.network = self.build()
        except ValueError as error:
            raise UsageError(str(error)) from error

    def build(self) -> HeatNetwork:
        """Return a new network of these options."""
        options = self.hparams
        has_flow = options["balance"] != "tb"
        return HeatNetwork(options["problem"], options["depth"], options["width"], self.KINDS, has_flow)

    def setup(self, stage: str) -> None:
        """Check that the instances are of the network's problem, and load the weights to start from."""
        data = getattr(self.trainer, "datamodule", None)
        wanted = self.network.problem
        if isinstance(data, FreshInstances) and data.hparams["problem"] != wanted:
            raise UsageError(f"the instances are of a {data.hparams['problem']}, the network is for a {wanted}")
        source = self.hparams["start_from"]
        if source is not None:
            start = load_heat(source, wanted).network
            if start.options != self.network.options:
                raise UsageError(f"{source}: a network of other options: {start.options}")
            self.network.load_state_dict(start.state_dict())

    def configure_optimizers(self) -> Any:
        """Return AdamW; its rate is set at each step.

        Raises
        ------
        UsageError
            If the trainer has no number of steps that schedules could end with.
        """
        if self.trainer.max_steps < 1:
            raise UsageError("schedules run over trainer.max_steps, which must be set")
        return self.optimiser(self.network, self.hparams["learning_rate"])

    def optimiser(self, network: HeatNetwork, learning_rate: float) -> torch.optim.Optimizer:
        """Return AdamW for a network."""
        return torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=self.hparams["weight_decay"])

    def epoch(self, batch: FreshBatch) -> tuple[int, int]:
        """Return the epoch of a batch, from 1 on, and how many there are."""
        steps = self.hparams["epoch_steps"]
        return 1 + batch.number // steps, -(-self.trainer.max_steps // steps)

    def scheduled(self, name: str, batch: FreshBatch) -> float:
        """Return what an option that is a range is at a batch."""
        course = logarithmic if name == "beta" else linear
        first, last = self.hparams[name]
        epoch, epochs = self.epoch(batch)
        return course(first, last, epoch, epochs)

    def look(self, network: HeatNetwork, instances: InstanceBatch) -> Flows:
        """Return what a network says of instances."""
        k = nearest_count(instances.num_nodes - (instances.problem == "cvrp"), self.hparams["sparsity"])
        return network(instances, nearest_graph(instances, k))

    def draw(
        self, instances: InstanceBatch, heat: SparseHeat, rng: np.random.Generator, inverse_temperature: float = 1.0
    ) -> Trajectories:
        """Return trajectories along a heat."""
        return sample_trajectories(
            *(instances, heat, self.hparams["ants"], SAMPLE, rng),
            inverse_temperature=inverse_temperature,
            threads=torch.get_num_threads(),
        )

    def improve(self, instances: InstanceBatch, heat: SparseHeat, nodes: Tensor, rng: np.random.Generator) -> Tensor:
        """Return local optima of trajectories, int64 [B, h, L]."""
        from nco.search.guided import Guidance, TourSearch
        from nco.search.route_search import RouteSearch
        from nco.search.space import plane

        spaces = [plane(coords) for coords in instances.coords.cpu().numpy()]
        guidance, threads = Guidance(self.hparams["perturbations"]), torch.get_num_threads()
        search: TourSearch | RouteSearch
        if instances.demand is None or instances.capacity is None:
            search = TourSearch(spaces, heat, guidance, threads=threads)
        else:
            loads = list(instances.demand.cpu().numpy()), instances.capacity.tolist()
            search = RouteSearch(spaces, *loads, heat, guidance, threads=threads)
        return torch.from_numpy(search(nodes.cpu().numpy(), rng)).to(nodes.device)

    def loss_of(
        self,
        batch: FreshBatch,
        flows: Flows,
        nodes: Tensor,
        kind: int = 0,
        *,
        reshaped: Tensor | None = None,
        extra: Tensor | None = None,
        inverse_temperature: float = 1.0,
    ) -> Tensor:
        """Return the mean loss of trajectories of a kind, int64 [B, h, L].

        ``reshaped`` [B, h] stands in for their costs, ``extra`` [B, h] is added to their energies.
        """
        problem = batch.instances.problem
        log_forward = move_log_probs(batch.instances, flows.heat, nodes, inverse_temperature)
        steps = transitions(batch.instances, nodes, log_forward, self.balance.backward, reshaped)
        if extra is not None:
            steps = steps.with_extra(extra)
        log_z = flows.log_z[:, kind]
        states = None
        if flows.log_flow is not None:
            states = state_flows(nodes, log_z, flows.log_flow[..., kind], steps.is_real, problem)
        beta, weight = self.scheduled("beta", batch), self.scheduled("db_weight", batch)
        return self.balance.loss(steps, log_z, states, beta, weight)

    def descend(self, optimiser: Any, network: HeatNetwork, loss: Tensor, batch: FreshBatch, peak: float) -> float:
        """Make a step of an optimiser, at its share of the peak of the learning rate, which is returned."""
        rate = peak * cosine(batch.number, self.trainer.max_steps, self.hparams["final_rate"])
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        self.manual_backward(loss)
        torch.nn.utils.clip_grad_norm_(network.parameters(), self.hparams["gradient_clip"])
        optimiser.step()
        return rate

    def validation_step(self, batch: FreshBatch, batch_idx: int) -> None:
        """Log the mean cost of the best and of all trajectories of held-out instances."""
        heat = self.look(self.network, batch.instances).heat
        decoder, ants = self.DECODERS[self.network.problem], self.hparams["validation_ants"]
        costs = sample_trajectories(
            batch.instances, heat, ants, decoder, batch.rng(), threads=torch.get_num_threads()
        ).costs
        options: dict[str, Any] = {"batch_size": len(batch), "sync_dist": True, "on_epoch": True}
        self.log("val_cost", costs.amin(dim=1).mean().float(), **options)
        self.log("val_cost_mean", costs.mean().float(), **options)
