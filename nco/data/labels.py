"""Labelled sets: same-size instances with near-optimal tours, as arrays for supervised training."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nco.data.label_shards import LabelShards
from nco.errors import InstanceFormatError

# Of a labelled set, the last tenth is for validation, but never more than this many rows.
VALIDATION_LIMIT = 1_000


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """Instances of one problem and size with their tours.

    Attributes
    ----------
    coords : float32 [M, N, 2]
        In the set's own units; node 0 is the depot of a CVRP.
    tours : integer [M, L]
        Giant tours (see :mod:`nco.solution`) in the compact dtype of the file, uint8 or uint16 where it suffices.
    demand : int64 [M, N] or None
        CVRP only; the depot's is 0.
    capacity : int64 [M] or None
        CVRP only.
    cost : float64 [M] or None
        The stored costs of the tours, where the file has them.
    """

    coords: NDArray[np.float32]
    tours: NDArray[np.integer]
    demand: NDArray[np.int64] | None = None
    capacity: NDArray[np.int64] | None = None
    cost: NDArray[np.float64] | None = None

    @property
    def problem(self) -> str:
        """Either "tsp" or "cvrp"."""
        return "tsp" if self.demand is None else "cvrp"

    def __len__(self) -> int:
        return len(self.tours)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> LabelledSet:
        """Return some rows as a labelled set; a slice shares memory with this one."""
        arrays = (self.coords, self.tours, self.demand, self.capacity, self.cost)
        return LabelledSet(*(None if array is None else array[rows] for array in arrays))  # type: ignore[arg-type]

    def split(self, validation: int | None = None) -> tuple[LabelledSet, LabelledSet]:
        """Return the rows for training and, from the end, the rows for validation.

        Parameters
        ----------
        validation : int, optional
            Number of validation rows. By default a tenth of the set, at least 1 and at most :data:`VALIDATION_LIMIT`.

        Raises
        ------
        ValueError
            If nothing would be left to train or to validate on.
        """
        if validation is None:
            validation = min(max(len(self) // 10, 1), VALIDATION_LIMIT)
        if not 0 < validation < len(self):
            raise ValueError(f"{validation} validation rows cannot be taken from a set of {len(self)}")
        border = len(self) - validation
        return self[:border], self[border:]


@dataclass(frozen=True)
class _ChunkRecipe:
    """How the instances of a published label file are drawn, in chunks of rows that share one seed.

    Chunk i is drawn from ``numpy.random.default_rng([seed, i])``: float32 coordinates of the whole chunk first, then
    for a CVRP the demands U{1..9} of all its customers. Its capacity is ``capacities[i % len(capacities)]``.
    """

    seed: int
    chunk: int
    num_nodes: int
    tours_key: str
    capacities: tuple[int, ...] = ()

    def chunks(self, count: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], int]]:
        """Yield coords [c, N, 2], demand [c, N] and capacity (0 for a TSP) of the chunks of ``count`` rows."""
        for index, start in enumerate(range(0, count, self.chunk)):
            rows = min(self.chunk, count - start)
            rng = np.random.default_rng([self.seed, index])
            coords = rng.random((self.chunk, self.num_nodes, 2), dtype=np.float32)[:rows]
            demand = np.zeros((rows, self.num_nodes), dtype=np.int64)
            capacity = 0
            if self.capacities:
                demand[:, 1:] = rng.integers(1, 10, (self.chunk, self.num_nodes - 1))[:rows]
                capacity = self.capacities[index % len(self.capacities)]
            yield coords, demand, capacity


# Label files that store tours only, by the name of the file: their instances follow from the seeds.
_RECIPES = {
    "tsp100_lkh": _ChunkRecipe(20261130, 1000, 100, "tours"),
    "cvrp100_c50_hgs": _ChunkRecipe(20261201, 500, 101, "giant_tours", (50,)),
    "cvrp100_mixed_hgs": _ChunkRecipe(20261202, 100, 101, "giant_tours", (30, 80, 120, 200, 400)),
}


def read_labels(path: str | Path) -> LabelledSet:
    """Read a labelled set for training.

    Parameters
    ----------
    path : path-like
        A set (.npz) whose every instance has a tour; a finished folder of label shards; or one of the label files that
        store tours only (``tsp100_lkh.npz``, ``cvrp100_c50_hgs.npz``, ``cvrp100_mixed_hgs.npz``), whose instances are
        drawn again.

    Raises
    ------
    InstanceFormatError
        If the file is none of these, lacks a key, or an instance has no tour.
    UsageError
        If a folder is not finished, or the instances that it labels cannot be had any more.
    """
    path = Path(path)
    if path.is_dir():
        return _from_shards(LabelShards.open(path))
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InstanceFormatError(f"cannot be read as .npz: {error}", path) from error
    if "coords" in arrays:
        return _from_set(arrays, path)
    if path.stem in _RECIPES:
        return _from_recipe(_RECIPES[path.stem], arrays, path)
    raise InstanceFormatError(
        f"has no coords, and only the instances of {', '.join(_RECIPES)} can be drawn again from their seeds", path
    )


def _from_set(arrays: dict[str, NDArray], path: Path) -> LabelledSet:
    """Take a labelled set from the arrays of a set file: coords, tour and for a CVRP demand and capacity."""
    if "tour" not in arrays:
        raise InstanceFormatError("has no tours, so it holds instances but no labels", path)
    coords = arrays["coords"].astype(np.float32, copy=False)
    unlabelled = (arrays["tour"] < 0).any(axis=1)
    if unlabelled.any():
        raise InstanceFormatError(f"instance {int(np.argmax(unlabelled))} has no tour", path)
    demand = arrays["demand"].astype(np.int64) if "demand" in arrays else None
    capacity = None
    if demand is not None:
        if "capacity" not in arrays:
            raise InstanceFormatError("has demand but no capacity", path)
        capacity = np.broadcast_to(arrays["capacity"].astype(np.int64), (len(coords),))
    cost = arrays["cost"].astype(np.float64) if "cost" in arrays else None
    return LabelledSet(coords, compact_tours(arrays["tour"], coords.shape[1]), demand, capacity, cost)


def _from_shards(shards: LabelShards) -> LabelledSet:
    """Join the labels of a folder to their instances, a shard of instances at a time."""
    labels, manifest, source = shards.labels(), shards.manifest, shards.source
    is_cvrp = manifest.problem == "cvrp"
    coords = np.empty((manifest.count, manifest.num_nodes, 2), dtype=np.float32)
    demand = np.empty((manifest.count, manifest.num_nodes), dtype=np.int64) if is_cvrp else None
    capacity = np.empty(manifest.count, dtype=np.int64) if is_cvrp else None
    for part in shards.parts():
        for row, instance in zip(part, source.instances(part.start, part.stop), strict=True):
            coords[row] = instance.network_coords
            if demand is not None and instance.demand is not None:
                demand[row] = instance.demand
            if capacity is not None and instance.capacity is not None:
                capacity[row] = instance.capacity
    return LabelledSet(coords, labels.tours, demand, capacity, labels.cost)


def _from_recipe(recipe: _ChunkRecipe, arrays: dict[str, NDArray], path: Path) -> LabelledSet:
    """Draw the instances of a label file again and join them to its tours."""
    if recipe.tours_key not in arrays:
        raise InstanceFormatError(f"lacks the key {recipe.tours_key!r}", path)
    tours = arrays[recipe.tours_key]
    coords, demand, capacity = zip(*recipe.chunks(len(tours)), strict=True)
    if not recipe.capacities:
        return LabelledSet(np.concatenate(coords), tours)
    per_row = np.concatenate([np.full(len(rows), one) for rows, one in zip(demand, capacity, strict=True)])
    if "capacity" in arrays and not np.array_equal(per_row, arrays["capacity"]):
        raise InstanceFormatError("its capacities are not those that its name stands for", path)
    return LabelledSet(
        np.concatenate(coords), tours, np.concatenate(demand), per_row, arrays["cost"].astype(np.float64)
    )


def compact_tours(tours: NDArray[np.integer], num_nodes: int) -> NDArray[np.integer]:
    """Return tours in the smallest unsigned dtype that holds every node index."""
    return tours.astype(np.min_scalar_type(num_nodes - 1), copy=False)
