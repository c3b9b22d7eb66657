"""Where the instances of a long computation come from, so that any part of them can be had again at any time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nco.data.generators import Generator, make_generator
from nco.data.sets import read_set
from nco.errors import UsageError
from nco.instance import Instance


class Source(Protocol):
    """A numbered sequence of instances of one problem."""

    @property
    def count(self) -> int:
        """Number of instances."""
        ...

    def instances(self, start: int, stop: int) -> list[Instance]:
        """Return the instances start..stop-1; always the same ones."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what identifies the source, in JSON's types; :func:`make_source` turns it back into the source."""
        ...


@dataclass(frozen=True)
class GeneratorSource:
    """Instances of a generator, each from a seed of its own, drawn when they are asked for.

    Instance r is ``make_generator(name, problem, size, **options)(numpy.random.default_rng([seed, r]), 1)[0]``, so it
    does not depend on how many there are, and a million of them are never held at once.

    Parameters
    ----------
    name, problem, size, options
        As in :func:`nco.data.generators.make_generator`.
    seed : int
        At least 0.
    count : int

    Raises
    ------
    UsageError
        If the generator refuses its options, or the seed or the count is negative.
    """

    name: str
    problem: str
    size: int
    seed: int
    count: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.seed < 0 or self.count < 1:
            raise UsageError(f"needs a seed >= 0 and a count >= 1, not {self.seed} and {self.count}")
        make_generator(self.name, self.problem, self.size, **self.options)  # refuses wrong options here and now

    @cached_property
    def _generator(self) -> Generator:
        return make_generator(self.name, self.problem, self.size, **self.options)

    def instances(self, start: int, stop: int) -> list[Instance]:
        """Return the instances start..stop-1."""
        rows = range(*slice(start, stop).indices(self.count))
        return [self._generator(np.random.default_rng([self.seed, row]), 1, first=row)[0] for row in rows]

    def describe(self) -> dict[str, Any]:
        """Return the fields."""
        return {"kind": "generator", **asdict(self)}


@dataclass(frozen=True)
class SetSource:
    """The instances of a set file (.npz), identified by the hash of its bytes."""

    path: Path

    @cached_property
    def _instances(self) -> list[Instance]:
        return read_set(self.path)

    @property
    def count(self) -> int:
        """Number of instances."""
        return len(self._instances)

    def instances(self, start: int, stop: int) -> list[Instance]:
        """Return the instances start..stop-1."""
        return self._instances[start:stop]

    def describe(self) -> dict[str, Any]:
        """Return the path and the hash of the file."""
        return {"kind": "set", "path": str(self.path.resolve()), "sha256": _sha256(self.path)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_source(description: Mapping[str, Any]) -> Source:
    """Return the source that a description stands for.

    Raises
    ------
    UsageError
        If it describes none, or the set file is missing or no longer the same.
    """
    fields = dict(description)
    kind = fields.pop("kind", None)
    if kind == "generator":
        return GeneratorSource(**fields)
    if kind != "set":
        raise UsageError(f"no source of instances is described by {json.dumps(description)}")
    path = Path(fields["path"])
    if not path.is_file():
        raise UsageError(f"the set {path} is not there any more")
    if _sha256(path) != fields["sha256"]:
        raise UsageError(f"the set {path} has changed")
    return SetSource(path)
