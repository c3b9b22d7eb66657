"""The DataModule of LEHD's training."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader

from nco.errors import UsageError
from nco.models.lehd.sampling import SegmentSampler, TrainingStates
from nco.models.lehd.validation import HeldOut
from nco.models.streams import LabelledData, ListedBatches


class LehdData(LabelledData):
    """Training states of LEHD out of labelled sets.

    Parameters
    ----------
    labels : list of str
        Paths of labelled sets of one problem and size (see :func:`nco.data.labels.read_labels`). ``$NAME`` in a path
        stands for an environment variable.
    batch_size : int
        States per batch; with several devices, on each.
    k, whole_share
        Candidates of a decision and the mix of states, see :class:`nco.models.lehd.sampling.SegmentSampler`.
    augmentation : {"none", "square", "rotation"}
    pool_instances, states_per_instance : int
        Instances that are sampled from at once, and states taken from each.
    validation : int or None
        Rows kept from the end of each set for validation; by default a tenth, at most 1,000.
    validation_instances : int
        Of those rows, how many are solved at each validation; 0 solves none.
    seed : int
    """

    COUNTS = (*LabelledData.COUNTS, "k")

    def __init__(
        self,
        labels: list[str],
        batch_size: int = 128,
        k: int = 100,
        whole_share: float = 0.5,
        augmentation: str = "rotation",
        pool_instances: int = 1024,
        states_per_instance: int = 8,
        validation: int | None = None,
        validation_instances: int = 32,
        seed: int = 0,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.check_options()
        if not 0 <= whole_share <= 1:
            raise UsageError(f"whole_share must lie between 0 and 1, not {whole_share}")

    def sampler(self, whole_share: float) -> SegmentSampler:
        """Return the sampler of this mix of states."""
        return SegmentSampler(self.hparams["k"], whole_share)

    def training_sampler(self) -> SegmentSampler:
        """Return the sampler of the states to train on."""
        return self.sampler(self.hparams["whole_share"])

    def val_dataloader(self) -> list[DataLoader]:
        """Return fixed segment states, fixed whole states (two of each held-out instance), and instances to solve."""
        loaders = [self.validation_states(self.sampler(whole_share)) for whole_share in (0.0, 1.0)]
        if self.hparams["validation_instances"]:
            held_out = HeldOut.take(self.validation_rows(), self.hparams["k"])
            loaders.append(DataLoader(ListedBatches([held_out]), batch_size=None))
        return loaders

    def transfer_batch_to_device(
        self, batch: TrainingStates | HeldOut, device: torch.device, dataloader_idx: int
    ) -> TrainingStates | HeldOut:
        """Move states, unless they are there already; instances to solve are no tensors yet."""
        if isinstance(batch, HeldOut):
            return batch
        return TrainingStates(batch.candidates.map(lambda tensor: tensor.to(device)), batch.target.to(device))
