"""Labelled instances as tensors: what training states are sampled from."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nco.data.labels import LabelledSet, read_labels
from nco.errors import UsageError

AUGMENTATIONS = ("none", "square", "rotation")


@dataclass(frozen=True)
class LabelledBatch:
    """Labelled instances as tensors.

    Attributes
    ----------
    coords : float32 [B, N, 2]
    tours : int64 [B, L]
        Giant tours.
    demand, capacity : int64 [B, N], [B], or None for a TSP
    """

    coords: Tensor
    tours: Tensor
    demand: Tensor | None = None
    capacity: Tensor | None = None

    def __len__(self) -> int:
        return self.coords.shape[0]

    def __getitem__(self, rows: Tensor) -> LabelledBatch:
        """Return some rows."""
        tensors = (self.coords, self.tours, self.demand, self.capacity)
        return LabelledBatch(*(None if tensor is None else tensor[rows] for tensor in tensors))  # type: ignore[arg-type]


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


def label_sequence(batch: LabelledBatch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the customers [B, n] (0-based) in the order of their label, and the route of each entry [B, n].

    Directions are random: of the tour of a TSP, of every single route of a CVRP. The order of routes means nothing.
    """
    tours = batch.tours
    if batch.demand is None:
        backward = torch.rand(len(tours), 1, generator=generator, device=tours.device) < 0.5
        return torch.where(backward, tours.flip(1), tours), torch.zeros_like(tours)
    customers = batch.coords.shape[1] - 1
    is_depot = tours == 0
    kept = torch.sort(is_depot.int(), dim=1, stable=True).indices[:, :customers]
    route = is_depot.cumsum(dim=1).gather(1, kept) - 1
    route = (route != route.roll(1, dims=1)).long()
    route[:, 0] = 0
    route = route.cumsum(dim=1)
    sequence = tours.gather(1, kept) - 1
    backward = torch.rand(route.shape, generator=generator, device=tours.device).gather(1, route) < 0.5
    place = torch.arange(customers, device=tours.device).expand_as(route)
    key = route * 2 * customers + torch.where(backward, customers - place, place)
    order = key.argsort(dim=1)
    return sequence.gather(1, order), route.gather(1, order)


def read_label_sets(paths: list[str], validation: int | None) -> tuple[LabelledSet, LabelledSet]:
    """Read labelled sets of one problem and size, and join them: rows for training, and rows for validation.

    Parameters
    ----------
    paths : list of str
        See :func:`nco.data.labels.read_labels`; ``$NAME`` in a path stands for an environment variable.
    validation : int or None
        Rows kept from the end of each set for validation; by default a tenth, at most 1,000.

    Raises
    ------
    NcoError
        If one is missing or broken, or they do not go together.
    """
    parts = [_read(path, validation) for path in paths]
    return _joined([training for training, _ in parts]), _joined([held_out for _, held_out in parts])


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
