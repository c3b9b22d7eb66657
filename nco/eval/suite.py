"""Benchmark suites: which solvers meet on which instances, read from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nco.errors import NcoError, UsageError
from nco.eval.fields import Fields, load_yaml
from nco.instance import Instance

# The reference of each instance is what its file states, unless a suite names one of its solvers.
FILE_REFERENCE = "file"


class InstanceSource(Protocol):
    """An entry of a suite that stands for instances."""

    def load(self) -> list[Instance]:
        """Return the instances, always the same ones."""
        ...


@dataclass(frozen=True)
class DataFiles:
    """Instances ``offset .. offset + limit - 1`` of a data file or a folder of data files."""

    path: Path
    rounding: str | None = None
    offset: int = 0
    limit: int | None = None

    def load(self) -> list[Instance]:
        """Read the instances."""
        from nco.data import read_any

        instances = read_any(self.path, self.rounding)
        stop = None if self.limit is None else self.offset + self.limit
        if not instances[self.offset : stop]:
            raise UsageError(f"{self.path}: has {len(instances)} instances, none from number {self.offset} on")
        return instances[self.offset : stop]


@dataclass(frozen=True)
class Generated:
    """Instances of a generator, see :class:`nco.data.sources.GeneratorSource`."""

    generate: str
    problem: str
    size: int
    count: int
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> list[Instance]:
        """Draw the instances."""
        from nco.data.sources import GeneratorSource

        source = GeneratorSource(self.generate, self.problem, self.size, self.seed, self.count, self.options)
        return source.instances(0, self.count)


@dataclass(frozen=True)
class Benchmark:
    """Large uniform instances, see :func:`nco.data.generators.benchmark_instances`."""

    problem: str
    size: int
    count: int
    capacity: int | None = None

    def load(self) -> list[Instance]:
        """Draw the instances."""
        from nco.data.generators import benchmark_instances

        return benchmark_instances(self.problem, self.size, self.count, self.capacity)


@dataclass(frozen=True)
class SolverEntry:
    """A solver of a suite.

    Attributes
    ----------
    solver : str
        Its name in the registry.
    label : str
        What tables call it; unique in a suite.
    options : mapping
    time_limit : float or None
        Seconds for each instance.
    batch_size : int or None
        Most instances of one problem and size to solve together. By default :data:`nco.eval.evaluator.BATCH_SIZE` where
        the solver says that it profits from batches (``batched = True``), else one.
    """

    solver: str
    label: str
    options: Mapping[str, Any] = field(default_factory=dict)
    time_limit: float | None = None
    batch_size: int | None = None


@dataclass(frozen=True)
class Suite:
    """What :func:`nco.eval.evaluator.evaluate` carries out.

    Attributes
    ----------
    name : str
    instances : tuple of InstanceSource
    solvers : tuple of SolverEntry
    seed : int
        Given to each solver.
    reference : str
        "file", or the label of the solver whose costs are the references.

    Raises
    ------
    UsageError
        If there are no instances or solvers, labels repeat, or the reference is neither.
    """

    name: str
    instances: tuple[InstanceSource, ...]
    solvers: tuple[SolverEntry, ...]
    seed: int = 1
    reference: str = FILE_REFERENCE

    def __post_init__(self) -> None:
        labels = [entry.label for entry in self.solvers]
        if not self.instances or not labels:
            raise UsageError(f"suite {self.name!r} needs instances and solvers")
        for label in labels:
            if labels.count(label) > 1:
                raise UsageError(f"two solvers are labelled {label!r}: give each a label of its own")
            if label == FILE_REFERENCE:
                raise UsageError(f"no solver may be labelled {label!r}")
        if self.reference not in (FILE_REFERENCE, *labels):
            raise UsageError(f"the reference must be 'file' or one of {', '.join(labels)}, not {self.reference!r}")

    def load(self) -> list[Instance]:
        """Return the instances of all entries; a reference solver's costs are to replace their own references."""
        return [instance for source in self.instances for instance in source.load()]

    def describe(self) -> dict[str, Any]:
        """Return what the suite asks for, in JSON's types; two suites that ask for the same have the same."""
        solvers = [{**asdict(entry), "options": dict(entry.options)} for entry in self.solvers]
        return {"name": self.name, "solvers": solvers, "seed": self.seed, "reference": self.reference}


def read_suite(path: str | Path) -> Suite:
    """Read a suite.

    ::

        name: small
        seed: 1                          # default: 1
        reference: file                  # or the label of a solver; default: file
        instances:
          - ../data/demo                 # a file, a folder or a set, relative to this file
          - {path: set.npz, limit: 100, offset: 0, rounding: none}
          - {generate: clustered, problem: tsp, size: 200, count: 16, seed: 7, options: {clusters: 5}}
          - {benchmark: cvrp, size: 1000, count: 8, capacity: 200}
        solvers:
          - lkh
          - {solver: ils, label: ils 10 s, time_limit: 10, options: {}, batch_size: 1}

    Raises
    ------
    UsageError
        If the file is no suite, naming file and key; unknown keys are never ignored.
    """
    path = Path(path)
    top = Fields(load_yaml(path), str(path))
    name = top.take("name", str, default=path.stem)
    instances = tuple(_read_source(value, place, path.parent) for value, place in top.take_list("instances"))
    solvers = tuple(_read_solver(value, place) for value, place in top.take_list("solvers"))
    seed = top.take("seed", int, default=1, lowest=0)
    reference = top.take("reference", str, default=FILE_REFERENCE)
    top.finish()
    try:
        return Suite(name, instances, solvers, seed, reference)
    except NcoError as error:
        raise UsageError(f"{path}: {error}") from error


def _read_source(value: Any, place: str, folder: Path) -> InstanceSource:
    if isinstance(value, str):
        value = {"path": value}
    entry = Fields(value, place)
    source: InstanceSource
    if entry.has("generate"):
        source = Generated(
            generate=entry.take("generate", str),
            problem=entry.take("problem", str),
            size=entry.take("size", int, lowest=1),
            count=entry.take("count", int, lowest=1),
            seed=entry.take("seed", int, lowest=0),
            options=entry.take("options", dict, default={}),
        )
    elif entry.has("benchmark"):
        source = Benchmark(
            problem=entry.take("benchmark", str),
            size=entry.take("size", int, lowest=1),
            count=entry.take("count", int, lowest=1),
            capacity=entry.take("capacity", int, default=None, lowest=1),
        )
    else:
        source = DataFiles(
            path=folder / entry.take("path", str),
            rounding=entry.take("rounding", str, default=None),
            offset=entry.take("offset", int, default=0, lowest=0),
            limit=entry.take("limit", int, default=None, lowest=1),
        )
    entry.finish()
    return source


def _read_solver(value: Any, place: str) -> SolverEntry:
    if isinstance(value, str):
        value = {"solver": value}
    entry = Fields(value, place)
    solver = entry.take("solver", str)
    read = SolverEntry(
        solver=solver,
        label=entry.take("label", str, default=solver),
        options=entry.take("options", dict, default={}),
        time_limit=entry.take("time_limit", float, default=None, above=0),
        batch_size=entry.take("batch_size", int, default=None, lowest=1),
    )
    entry.finish()
    return read
