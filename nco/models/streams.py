"""Endless, resumable streams of training states out of labelled sets, and the DataModule around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nco.data.labels import LabelledSet
from nco.errors import UsageError
from nco.models.labelled import AUGMENTATIONS, LabelledBatch, augment, labelled_batch, read_label_sets

VALIDATION_BATCH = 512


class States(Protocol):
    """Training states with their labels, R rows."""

    @property
    def target(self) -> Tensor:
        """Moves that the label would make, bool [R, T]; none where the network does not see it."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor | slice, /) -> Self: ...


class Sampler(Protocol):
    """Draws training states from labelled instances."""

    def sample(self, batch: LabelledBatch, per_instance: int, generator: torch.Generator) -> Any:
        """Return ``per_instance`` states of every instance, [B * per_instance, ...], instance by instance."""


class StateStream(IterableDataset):
    """An endless stream of training batches, the same from any batch on as from the first.

    States are sampled in pools of many instances, shuffled and cut into batches. Pool p depends on the seed and p
    alone, so that a resumed run continues exactly where it stopped.

    Parameters
    ----------
    labels : LabelledSet
    sampler : Sampler
    batch_size : int
        States per batch.
    pool_instances, per_instance : int
        Instances drawn for a pool and states taken from each.
    augmentation : {"none", "square", "rotation"}
    seed : sequence of int
        The run's seed and, with several processes, the process's rank.
    device : torch.device
        Where states are sampled and batches live.
    consumed : callable
        Returns how many batches were consumed before; asked at the beginning of each iteration, so that a second
        epoch, like a resumed run, goes on where the first one stopped.
    """

    def __init__(
        self,
        labels: LabelledSet,
        sampler: Sampler,
        batch_size: int,
        pool_instances: int,
        per_instance: int,
        augmentation: str,
        seed: Sequence[int],
        device: torch.device | str = "cpu",
        consumed: Callable[[], int] = lambda: 0,
    ):
        self.labels = labels
        self.sampler = sampler
        self.batch_size = batch_size
        self.pool_instances = pool_instances
        self.per_instance = per_instance
        self.augmentation = augmentation
        self.seed = tuple(seed)
        self.device = torch.device(device)
        self.consumed = consumed
        self.batches_per_pool = pool_instances * per_instance // batch_size
        if self.batches_per_pool < 1:
            raise UsageError(
                f"a pool of {pool_instances} x {per_instance} states does not fill a batch of {batch_size}"
            )

    def pool(self, number: int) -> Any:
        """Return all states of one pool, shuffled."""
        entropy = np.random.SeedSequence([*self.seed, number])
        generator = torch.Generator(self.device).manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> 1))
        rows = torch.from_numpy(np.random.default_rng(entropy).integers(0, len(self.labels), self.pool_instances))
        batch = labelled_batch(self.labels, rows, self.device)
        coords = augment(batch.coords, self.augmentation, generator)
        batch = LabelledBatch(coords, batch.tours, batch.demand, batch.capacity)
        states = self.sampler.sample(batch, self.per_instance, generator)
        return states[torch.randperm(len(states), generator=generator, device=self.device)]

    def __iter__(self) -> Iterator[Any]:
        """Yield batches for ever, from the first that was not consumed."""
        pool_number, offset = divmod(self.consumed(), self.batches_per_pool)
        while True:
            pool = self.pool(pool_number)
            for batch in range(offset, self.batches_per_pool):
                yield pool[batch * self.batch_size : (batch + 1) * self.batch_size]
            pool_number, offset = pool_number + 1, 0


def consumed_batches(trainer: pl.Trainer | None) -> int:
    """Return how many batches a run, before and after a resume, has trained on."""
    if trainer is None:
        return 0
    # Of Lightning's counters only this one is right in a checkpoint wherever that is saved: in the middle of an epoch,
    # at its end or after a validation. The checkpoint itself has it under the same names.
    return trainer.fit_loop.epoch_loop.batch_progress.state_dict()["total"]["processed"]


class ListedBatches(Dataset):
    """Ready batches, for validation."""

    def __init__(self, batches: Sequence[Any]):
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Any:
        return self.batches[number]


class LabelledData(pl.LightningDataModule):
    """Training states out of labelled sets; each network has a subclass with its sampler and its validation.

    A subclass's hyper-parameters are saved and have ``labels``, ``batch_size``, ``augmentation``, ``pool_instances``,
    ``states_per_instance``, ``validation`` and ``seed``.

    Attributes
    ----------
    training, held_out : LabelledSet or None
        None before :meth:`setup`.
    """

    # Options that must be at least 1.
    COUNTS: tuple[str, ...] = ("batch_size", "pool_instances", "states_per_instance")

    def __init__(self) -> None:
        super().__init__()
        self.training: LabelledSet | None = None
        self.held_out: LabelledSet | None = None

    def check_options(self, **known: Sequence[str]) -> None:
        """Check counts and the augmentation, and that each named option has one of its known values."""
        for name, values in {"augmentation": AUGMENTATIONS, **known}.items():
            if self.hparams[name] not in values:
                raise UsageError(f"unknown {name} {self.hparams[name]!r}; known are {', '.join(values)}")
        for name in self.COUNTS:
            if self.hparams[name] < 1:
                raise UsageError(f"{name} must be at least 1, not {self.hparams[name]}")

    def setup(self, stage: str | None = None) -> None:
        """Read the labelled sets.

        Raises
        ------
        NcoError
            If one is missing or broken, or they do not go together.
        """
        if self.training is None:
            self.training, self.held_out = read_label_sets(self.hparams["labels"], self.hparams["validation"])

    def training_sampler(self) -> Sampler:
        """Return the sampler of the states to train on."""
        raise NotImplementedError

    def train_dataloader(self) -> DataLoader:
        """Return the endless stream, from the batch where a resumed run stopped."""
        assert self.training is not None
        trainer = self.trainer
        options = self.hparams
        stream = StateStream(
            self.training,
            self.training_sampler(),
            options["batch_size"],
            options["pool_instances"],
            options["states_per_instance"],
            options["augmentation"],
            (options["seed"], trainer.global_rank if trainer else 0),
            trainer.strategy.root_device if trainer else "cpu",
            lambda: consumed_batches(trainer),
        )
        return DataLoader(stream, batch_size=None)

    def validation_states(self, sampler: Sampler) -> DataLoader:
        """Return fixed states, two of each held-out instance, in batches."""
        assert self.held_out is not None
        batch = labelled_batch(self.held_out, torch.arange(len(self.held_out)))
        states = sampler.sample(batch, 2, torch.Generator().manual_seed(self.hparams["seed"]))
        pieces = [states[start : start + VALIDATION_BATCH] for start in range(0, len(states), VALIDATION_BATCH)]
        return DataLoader(ListedBatches(pieces), batch_size=None)

    def validation_rows(self) -> LabelledSet:
        """Return ``validation_instances`` of the held-out instances, spread over all sets, which lie one by one."""
        assert self.held_out is not None
        count = min(self.hparams["validation_instances"], len(self.held_out))
        return self.held_out[np.linspace(0, len(self.held_out) - 1, count).astype(np.int64)]
