"""Endless, resumable streams of training states, and the DataModule around them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nco.data.labels import LabelledSet, read_labels
from nco.errors import UsageError
from nco.models.l2c_insert.sampling import LabelledBatch, StateSampler, TrainingStates
from nco.models.l2c_insert.validation import HeldOut
from nco.search.window import WindowRule

AUGMENTATIONS = ("none", "square", "rotation")
CHAIN_ORDERS = ("nearest", "polar")
VALIDATION_BATCH = 512


def labelled_batch(labels: LabelledSet, rows: Tensor, device: torch.device | str = "cpu") -> LabelledBatch:
    """Return rows of a labelled set as tensors."""
    picked = labels[rows.numpy()]
    arrays = (picked.coords, picked.tours.astype(np.int64), picked.demand, picked.capacity)
    return LabelledBatch(*(None if array is None else torch.from_numpy(array).to(device) for array in arrays))  # type: ignore[arg-type]


def augment(coords: Tensor, augmentation: str, generator: torch.Generator) -> Tensor:
    """Return instances [B, N, 2] seen from another side: one of the square's symmetries, or any rotation, each.

    Rotated points leave the unit square, which matters only to a network that sees coordinates as they are.
    """
    if augmentation == "none":
        return coords
    shape = (len(coords), 1)
    flip = torch.rand(shape, generator=generator, device=coords.device) < 0.5
    turn = torch.rand(shape, generator=generator, device=coords.device)
    angle = 2 * torch.pi * turn if augmentation == "rotation" else (4 * turn).floor() * (torch.pi / 2)
    x, y = (coords - 0.5).unbind(-1)
    x = torch.where(flip, -x, x)
    return torch.stack([x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()], dim=-1) + 0.5


class StateStream(IterableDataset[TrainingStates]):
    """An endless stream of training batches, the same from any batch on as from the first.

    States are sampled in pools of many instances, shuffled and cut into batches. Pool p depends on the seed and p
    alone, so that a resumed run continues exactly where it stopped.

    Parameters
    ----------
    labels : LabelledSet
    sampler : StateSampler
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
        sampler: StateSampler,
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

    def pool(self, number: int) -> TrainingStates:
        """Return all states of one pool, shuffled."""
        entropy = np.random.SeedSequence([*self.seed, number])
        generator = torch.Generator(self.device).manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> 1))
        rows = torch.from_numpy(np.random.default_rng(entropy).integers(0, len(self.labels), self.pool_instances))
        batch = labelled_batch(self.labels, rows, self.device)
        coords = augment(batch.coords, self.augmentation, generator)
        batch = LabelledBatch(coords, batch.tours, batch.demand, batch.capacity)
        states = self.sampler.sample(batch, self.per_instance, generator)
        return states[torch.randperm(len(states), generator=generator, device=self.device)]

    def __iter__(self) -> Iterator[TrainingStates]:
        """Yield batches for ever, from the first that was not consumed."""
        pool_number, offset = divmod(self.consumed(), self.batches_per_pool)
        while True:
            pool = self.pool(pool_number)
            for batch in range(offset, self.batches_per_pool):
                yield pool[batch * self.batch_size : (batch + 1) * self.batch_size]
            pool_number, offset = pool_number + 1, 0


class _Listed(Dataset[TrainingStates | HeldOut]):
    """Ready batches, for validation."""

    def __init__(self, batches: Sequence[TrainingStates | HeldOut]):
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> TrainingStates | HeldOut:
        return self.batches[number]


class InsertionData(pl.LightningDataModule):
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

    HOLE, CHAIN = "hole", "chain"

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
        self._check_options()
        self.rule = WindowRule(positions, unvisited)
        self.training: LabelledSet | None = None
        self.held_out: LabelledSet | None = None

    def _check_options(self) -> None:
        options = self.hparams
        for name, known in (("augmentation", AUGMENTATIONS), ("chain_order", CHAIN_ORDERS)):
            if options[name] not in known:
                raise UsageError(f"unknown {name} {options[name]!r}; known are {', '.join(known)}")
        for name in ("batch_size", "positions", "unvisited", "pool_instances", "states_per_instance"):
            if options[name] < 1:
                raise UsageError(f"{name} must be at least 1, not {options[name]}")
        low, high = options["hole_sizes"]
        if not 1 <= low <= high:
            raise UsageError(f"hole_sizes are the smallest and the largest hole, not {low} and {high}")
        if not 0 <= options["hole_share"] <= 1:
            raise UsageError(f"hole_share must lie between 0 and 1, not {options['hole_share']}")

    def setup(self, stage: str | None = None) -> None:
        """Read the labelled sets.

        Raises
        ------
        NcoError
            If one is missing or broken, or they do not go together.
        """
        if self.training is not None:
            return
        parts = [_read(path, self.hparams["validation"]) for path in self.hparams["labels"]]
        self.training = _joined([training for training, _ in parts])
        self.held_out = _joined([held_out for _, held_out in parts])

    def sampler(self, hole_share: float) -> StateSampler:
        """Return the sampler of this mix of states."""
        low, high = self.hparams["hole_sizes"]
        return StateSampler(self.rule, hole_share, (low, high), self.hparams["chain_order"])

    def consumed_batches(self) -> int:
        """Return how many batches this run, before and after a resume, has trained on."""
        if self.trainer is None:
            return 0
        # Of Lightning's counters only this one is right in a checkpoint wherever that is saved: in the middle of an
        # epoch, at its end or after a validation. The checkpoint itself has it under the same names.
        return self.trainer.fit_loop.epoch_loop.batch_progress.state_dict()["total"]["processed"]

    def train_dataloader(self) -> DataLoader:
        """Return the endless stream, from the batch where a resumed run stopped."""
        assert self.training is not None
        trainer = self.trainer
        options = self.hparams
        stream = StateStream(
            self.training,
            self.sampler(options["hole_share"]),
            options["batch_size"],
            options["pool_instances"],
            options["states_per_instance"],
            options["augmentation"],
            (options["seed"], trainer.global_rank if trainer else 0),
            trainer.strategy.root_device if trainer else "cpu",
            self.consumed_batches,
        )
        return DataLoader(stream, batch_size=None)

    def val_dataloader(self) -> list[DataLoader]:
        """Return fixed hole states, fixed chain states (two of each held-out instance), and instances to solve."""
        assert self.held_out is not None
        options = self.hparams
        batch = labelled_batch(self.held_out, torch.arange(len(self.held_out)))
        loaders = []
        for hole_share in (1.0, 0.0):
            generator = torch.Generator().manual_seed(options["seed"])
            states = self.sampler(hole_share).sample(batch, 2, generator)
            pieces = [states[start : start + VALIDATION_BATCH] for start in range(0, len(states), VALIDATION_BATCH)]
            loaders.append(DataLoader(_Listed(pieces), batch_size=None))
        if options["validation_instances"]:
            low, high = options["hole_sizes"]
            count = min(options["validation_instances"], len(self.held_out))
            # Spread over all sets, which lie one behind the other.
            rows = np.linspace(0, len(self.held_out) - 1, count).astype(np.int64)
            held_out = HeldOut.take(self.held_out[rows], self.rule, options["chain_order"], (low, high))
            loaders.append(DataLoader(_Listed([held_out]), batch_size=None))
        return loaders

    def transfer_batch_to_device(
        self, batch: TrainingStates | HeldOut, device: torch.device, dataloader_idx: int
    ) -> TrainingStates | HeldOut:
        """Move states, unless they are there already; instances to solve are no tensors yet."""
        if isinstance(batch, HeldOut):
            return batch
        return TrainingStates(batch.window.map(lambda tensor: tensor.to(device)), batch.target.to(device))


def _read(path: str, validation: int | None) -> tuple[LabelledSet, LabelledSet]:
    """Read a labelled set, whose path may name environment variables, for training and for validation."""
    expanded = os.path.expandvars(path)
    if "$" in expanded:
        raise UsageError(f"labels {path}: the environment variable is not set; set it, or give a path without one")
    if not os.path.exists(expanded):
        raise UsageError(f"no labels at {expanded}")
    labels = read_labels(expanded)
    try:
        return labels.split(validation)
    except ValueError as error:
        raise UsageError(f"{expanded}: {error}") from error


def _joined(parts: list[LabelledSet]) -> LabelledSet:
    """Join labelled sets of one problem and size; shorter giant tours are padded with zeros."""
    shapes = {(part.problem, part.coords.shape[1]) for part in parts}
    if len(shapes) != 1:
        raise UsageError(f"labelled sets of one problem and size are needed, not of {sorted(shapes)}")
    longest = max(part.tours.shape[1] for part in parts)
    tours = [np.pad(part.tours, ((0, 0), (0, longest - part.tours.shape[1]))) for part in parts]
    coords = np.concatenate([part.coords for part in parts])
    if parts[0].problem == "tsp":
        return LabelledSet(coords, np.concatenate(tours))
    demand = np.concatenate([part.demand for part in parts])  # type: ignore[misc]
    capacity = np.concatenate([part.capacity for part in parts])  # type: ignore[misc]
    return LabelledSet(coords, np.concatenate(tours), demand, capacity)
