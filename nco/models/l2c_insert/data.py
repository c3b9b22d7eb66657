"""The DataModule of L2C-Insert's training."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader

from nco.errors import UsageError
from nco.models.l2c_insert.sampling import StateSampler, TrainingStates
from nco.models.l2c_insert.validation import HeldOut
from nco.models.streams import LabelledData, ListedBatches
from nco.search.window import WindowRule

CHAIN_ORDERS = ("nearest", "polar")


class InsertionData(LabelledData):
    """Training states of L2C-Insert out of labelled sets.

    Parameters
    ----------
    labels : list of str
        Paths of labelled sets of one problem and size (see :func:`nco.data.labels.read_labels`). ``$NAME`` in a path
        stands for an environment variable.
    batch_size : int
        States per batch; with several devices, on each.
    positions, unvisited : int
        The window, see :class:`nco.search.window.WindowRule`.
    hole_share, hole_sizes, chain_order
        The mix of states, see :class:`nco.models.l2c_insert.sampling.StateSampler`.
    augmentation : {"none", "square", "rotation"}
    pool_instances, states_per_instance : int
        Instances that are sampled from at once, and states taken from each.
    validation : int or None
        Rows kept from the end of each set for validation; by default a tenth, at most 1,000.
    validation_instances : int
        Of those rows, how many are solved at each validation; 0 solves none.
    seed : int
    """

    COUNTS = (*LabelledData.COUNTS, "positions", "unvisited")

    def __init__(
        self,
        labels: list[str],
        batch_size: int = 128,
        positions: int = 16,
        unvisited: int = 8,
        hole_share: float = 0.5,
        hole_sizes: tuple[int, int] = (4, 50),
        chain_order: str = "nearest",
        augmentation: str = "rotation",
        pool_instances: int = 1024,
        states_per_instance: int = 8,
        validation: int | None = None,
        validation_instances: int = 32,
        seed: int = 0,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.check_options(chain_order=CHAIN_ORDERS)
        low, high = hole_sizes
        if not 1 <= low <= high:
            raise UsageError(f"hole_sizes are the smallest and the largest hole, not {low} and {high}")
        if not 0 <= hole_share <= 1:
            raise UsageError(f"hole_share must lie between 0 and 1, not {hole_share}")
        self.rule = WindowRule(positions, unvisited)

    def sampler(self, hole_share: float) -> StateSampler:
        """Return the sampler of this mix of states."""
        low, high = self.hparams["hole_sizes"]
        return StateSampler(self.rule, hole_share, (low, high), self.hparams["chain_order"])

    def training_sampler(self) -> StateSampler:
        """Return the sampler of the states to train on."""
        return self.sampler(self.hparams["hole_share"])

    def val_dataloader(self) -> list[DataLoader]:
        """Return fixed hole states, fixed chain states (two of each held-out instance), and instances to solve."""
        options = self.hparams
        loaders = [self.validation_states(self.sampler(hole_share)) for hole_share in (1.0, 0.0)]
        if options["validation_instances"]:
            low, high = options["hole_sizes"]
            held_out = HeldOut.take(self.validation_rows(), self.rule, options["chain_order"], (low, high))
            loaders.append(DataLoader(ListedBatches([held_out]), batch_size=None))
        return loaders

    def transfer_batch_to_device(
        self, batch: TrainingStates | HeldOut, device: torch.device, dataloader_idx: int
    ) -> TrainingStates | HeldOut:
        """Move states, unless they are there already; instances to solve are no tensors yet."""
        if isinstance(batch, HeldOut):
            return batch
        return TrainingStates(batch.window.map(lambda tensor: tensor.to(device)), batch.target.to(device))
