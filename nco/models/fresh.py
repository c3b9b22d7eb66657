"""Endless, resumable streams of random instances that no network has seen before, and the DataModule around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, IterableDataset

from nco.data.generators import CVRPGenerator, Generator, TSPGenerator
from nco.errors import UsageError
from nco.instance import PROBLEMS, InstanceBatch
from nco.models.streams import ListedBatches, consumed_batches

VALIDATION_BATCH = 16
# What seeds are for: instances to train on, those to validate on, and all that is drawn in a step.
_TRAINING, _HELD_OUT, _STEP = range(3)


@dataclass(frozen=True)
class FreshBatch:
    """Random instances.

    Attributes
    ----------
    instances : InstanceBatch
    number : int
        Of the batch in its run, from 0 on.
    seed : tuple of int
        Of all that a step draws: a resumed run draws the same.
    """

    instances: InstanceBatch
    number: int
    seed: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.instances)

    def rng(self) -> np.random.Generator:
        """Return the generator of the step, always in the same state."""
        return np.random.default_rng(self.seed)


class FreshStream(IterableDataset):
    """An endless stream of random instances, the same from any batch on as from the first.

    Parameters
    ----------
    generator : nco.data.generators.Generator
    batch_size : int
    seed : tuple of int
        The run's seed and, with several processes, the process's rank. A batch depends on them and on its number alone.
    consumed : callable
        Returns how many batches were consumed before; asked at the beginning of each iteration.
    """

    def __init__(
        self, generator: Generator, batch_size: int, seed: tuple[int, ...], consumed: Callable[[], int] = lambda: 0
    ):
        self.generator = generator
        self.batch_size = batch_size
        self.seed = seed
        self.consumed = consumed

    def batch(self, number: int) -> FreshBatch:
        """Return the batch of this number."""
        rng = np.random.default_rng((*self.seed, _TRAINING, number))
        instances = InstanceBatch.from_instances(self.generator(rng, self.batch_size))
        return FreshBatch(instances, number, (*self.seed, _STEP, number))

    def __iter__(self) -> Iterator[FreshBatch]:
        """Yield batches for ever, from the first that was not consumed."""
        number = self.consumed()
        while True:
            yield self.batch(number)
            number += 1


class FreshInstances(pl.LightningDataModule):
    """Uniform random instances of one size, new ones in each batch.

    Parameters
    ----------
    problem : {"tsp", "cvrp"}
    size : int
        Cities or customers.
    capacity : int, optional
        Of a CVRP; GFACS, AGFN and HBG have 50 for all sizes. By default the literature's for the size.
    batch_size : int
        Instances per batch; with several devices, on each.
    validation_instances : int
        Fixed instances that are solved at each validation.
    seed : int
    """

    def __init__(
        self,
        problem: str,
        size: int,
        capacity: int | None = None,
        batch_size: int = 20,
        validation_instances: int = 32,
        seed: int = 0,
    ):
        super().__init__()
        self.save_hyperparameters()
        if problem not in PROBLEMS:
            raise UsageError(f"unknown problem {problem!r}; known are {', '.join(PROBLEMS)}")
        for name in ("batch_size", "validation_instances"):
            if self.hparams[name] < 1:
                raise UsageError(f"{name} must be at least 1, not {self.hparams[name]}")
        if problem == "tsp" and capacity is not None:
            raise UsageError("a TSP has no capacity")
        self.generator: Generator = TSPGenerator(size) if problem == "tsp" else CVRPGenerator(size, capacity=capacity)

    def train_dataloader(self) -> DataLoader:
        """Return the endless stream, from the batch where a resumed run stopped."""
        trainer = self.trainer
        seed = (self.hparams["seed"], trainer.global_rank if trainer else 0)
        stream = FreshStream(self.generator, self.hparams["batch_size"], seed, lambda: consumed_batches(trainer))
        return DataLoader(stream, batch_size=None)

    def val_dataloader(self) -> DataLoader:
        """Return the instances to validate on, in batches."""
        seed, count = self.hparams["seed"], self.hparams["validation_instances"]
        instances = InstanceBatch.from_instances(self.generator(np.random.default_rng((seed, _HELD_OUT)), count))
        batches = [
            FreshBatch(instances[begin : begin + VALIDATION_BATCH], begin, (seed, _HELD_OUT, begin))
            for begin in range(0, count, VALIDATION_BATCH)
        ]
        return DataLoader(ListedBatches(batches), batch_size=None)

    def transfer_batch_to_device(self, batch: FreshBatch, device: torch.device, dataloader_idx: int) -> FreshBatch:
        """Move the instances."""
        return replace(batch, instances=batch.instances.to(device))
