"""A folder of label shards: what a labelling run writes, and what it finds again after it was killed.

``manifest.json`` states once what is labelled and how. ``labels-START.npz`` holds the tours of the instances from START
on: ``tours`` [c, L], giant tours in the smallest unsigned dtype, ``cost`` float64 [c], NaN where the solver failed and
the tour is void, ``start`` and ``stop``, and ``manifest``, the text of the manifest once more, which tells shards of
another run. Every file is written beside its place and then moved into it, so a file that is there is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nco.data.sets import write_set
from nco.data.sources import Source, make_source
from nco.errors import InstanceFormatError, UsageError
from nco.solution import split_giant_tour

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What is labelled and how; two runs with equal manifests write the same shards.

    Attributes
    ----------
    source : dict
        Description of the instances, see :func:`nco.data.sources.make_source`.
    count, problem, num_nodes
        How many instances there are, of what kind and size.
    solver : str
    options : dict
        Those of the solver.
    seed : int
        Given to the solver for each instance.
    time_limit : float or None
        Seconds per instance. With one, the labels depend on the machine.
    shard_size : int
        Instances in a shard.
    """

    source: dict[str, Any]
    count: int
    problem: str
    num_nodes: int
    solver: str
    options: dict[str, Any]
    seed: int
    time_limit: float | None
    shard_size: int

    def to_json(self) -> str:
        """Return the text of manifest.json."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read a manifest.json.

        Raises
        ------
        InstanceFormatError
            If the file is none.
        """
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, TypeError, ValueError) as error:
            raise InstanceFormatError(f"is no manifest of labels: {error}", path) from error


@dataclass(frozen=True, eq=False)
class Shard:
    """Labels of some consecutive instances: giant tours [c, L], and costs [c] with NaN where there is no tour."""

    tours: NDArray[np.integer]
    cost: NDArray[np.float64]


@dataclass(frozen=True)
class LabelShards:
    """A folder of label shards and its manifest."""

    folder: Path
    manifest: Manifest

    @classmethod
    def create(cls, folder: str | Path, manifest: Manifest) -> LabelShards:
        """Start a folder, or go on with one that was started with the same manifest.

        Raises
        ------
        UsageError
            If the folder holds labels of something else, naming the entries that differ.
        """
        folder = Path(folder)
        path = folder / MANIFEST
        if not path.exists():
            if any(folder.glob("labels-*.npz")):
                raise UsageError(f"{folder} holds labels without a {MANIFEST}; give another folder")
            folder.mkdir(parents=True, exist_ok=True)
            _write(path, lambda file: file.write(manifest.to_json().encode()))
        found = Manifest.read(path)
        if found.to_json() != manifest.to_json():
            ours, theirs = json.loads(manifest.to_json()), json.loads(found.to_json())
            differing = [f"{key} {theirs[key]!r} instead of {ours[key]!r}" for key in ours if ours[key] != theirs[key]]
            raise UsageError(f"{folder} holds other labels: {'; '.join(differing)}; give another folder")
        return cls(folder, found)

    @classmethod
    def open(cls, folder: str | Path) -> LabelShards:
        """Open a folder that a labelling run has written.

        Raises
        ------
        InstanceFormatError
            If it has no manifest.
        """
        return cls(Path(folder), Manifest.read(Path(folder) / MANIFEST))

    @property
    def source(self) -> Source:
        """The instances; UsageError if their set file is gone or changed."""
        return make_source(self.manifest.source)

    def parts(self) -> list[range]:
        """Return the ranges of instances that make the shards."""
        size, count = self.manifest.shard_size, self.manifest.count
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    def path(self, part: range) -> Path:
        """Return the file of a shard."""
        return self.folder / f"labels-{part.start:09d}.npz"

    def check_names(self) -> None:
        """Raise UsageError for a label file that is the place of no shard."""
        expected = {self.path(part) for part in self.parts()}
        for path in sorted(self.folder.glob("labels-*.npz")):
            if path not in expected:
                raise UsageError(f"{path}: is no shard of these labels; move it away")

    def read(self, part: range) -> Shard | None:
        """Read a shard, or return None where there is none yet.

        Raises
        ------
        InstanceFormatError
            If the file is corrupt or belongs to another run.
        """
        path = self.path(part)
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                tours, cost = file["tours"], file["cost"]
                identity = (str(file["manifest"]), int(file["start"]), int(file["stop"]))
        except Exception as error:  # a broken archive makes numpy, zipfile and zlib raise all kinds of errors
            raise InstanceFormatError(f"is a corrupt shard ({error}); remove it to label it again", path) from error
        if identity != (self.manifest.to_json(), part.start, part.stop) or not len(tours) == len(cost) == len(part):
            raise InstanceFormatError("is a shard of other labels; move it away", path)
        return Shard(tours, cost)

    def missing(self, part: range) -> list[int]:
        """Return the numbers of the instances of a shard that have no label yet; raises what :meth:`read` raises."""
        shard = self.read(part)
        return list(part) if shard is None else [part[row] for row in np.flatnonzero(np.isnan(shard.cost))]

    def add(self, part: range, labels: Mapping[int, tuple[NDArray[np.int64], float]]) -> None:
        """Write a shard with giant tours and costs by the number of the instance, beside those that it has already."""
        old = self.read(part)
        cost = np.full(len(part), np.nan) if old is None else old.cost
        width = max([0 if old is None else old.tours.shape[1], *(len(tour) for tour, _ in labels.values())])
        # Zeros at the end of a giant tour are further returns to the depot; a row without a label is all zeros.
        tours = np.zeros((len(part), width), dtype=np.min_scalar_type(self.manifest.num_nodes - 1))
        if old is not None:
            tours[:, : old.tours.shape[1]] = old.tours
        for number, (tour, length) in labels.items():
            tours[part.index(number), : len(tour)] = tour
            cost[part.index(number)] = length
        arrays = {
            "tours": tours,
            "cost": cost,
            "start": np.int64(part.start),
            "stop": np.int64(part.stop),
            "manifest": np.str_(self.manifest.to_json()),
        }
        _write(self.path(part), lambda file: np.savez(file, allow_pickle=False, **arrays))  # type: ignore[arg-type]

    def labels(self) -> Shard:
        """Return the labels of all instances, in order.

        Raises
        ------
        UsageError
            If shards are missing or instances have failed, naming the first of them.
        """
        shards = []
        for part in self.parts():
            shard = self.read(part)
            if shard is None:
                raise UsageError(f"{self.path(part)}: is not there yet; label the rest first")
            failed = np.flatnonzero(np.isnan(shard.cost))
            if len(failed):
                raise UsageError(f"{self.path(part)}: instance {part[failed[0]]} has no tour; label it again first")
            shards.append(shard)
        width = max(shard.tours.shape[1] for shard in shards)
        tours = [np.pad(shard.tours, ((0, 0), (0, width - shard.tours.shape[1]))) for shard in shards]
        return Shard(np.concatenate(tours), np.concatenate([shard.cost for shard in shards]))


def join_shards(folder: str | Path, path: str | Path) -> None:
    """Write a finished folder of label shards as one set (.npz): instances, their tours, and the costs as references.

    All instances are in memory at once. Training needs no joined set: :func:`nco.data.labels.read_labels` reads the
    folder as it is.

    Raises
    ------
    UsageError
        If labels are missing, the instances cannot be had any more, or they do not fit into a set (see
        :func:`nco.data.sets.write_set`).
    """
    shards = LabelShards.open(folder)
    labels, manifest = shards.labels(), shards.manifest
    instances = [
        instance.with_reference(cost, manifest.solver)
        for instance, cost in zip(shards.source.instances(0, manifest.count), labels.cost, strict=True)
    ]
    write_set(instances, path, [split_giant_tour(manifest.problem, tour) for tour in labels.tours])


def _write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that it is either there and whole, or not there."""
    # A killed run may leave such a file behind: nothing reads it. The process id keeps two runs apart.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
