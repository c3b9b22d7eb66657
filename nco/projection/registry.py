"""Which projection map goes with which problem and size: a small YAML file, which results of searches may extend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

import nco
from nco.errors import UsageError
from nco.instance import PROBLEMS
from nco.projection.maps import MAPS, ProjectionMap
from nco.projection.program import as_map, compile_program

FILE = "projections.yaml"


@dataclass(frozen=True)
class Entry:
    """The map of instances of up to so many nodes; None: of all larger ones."""

    map: str
    up_to: int | None = None


@dataclass(frozen=True)
class ProjectionRegistry:
    """Maps by problem and size, and found programs by name.

    Attributes
    ----------
    entries : dict
        From each problem to its entries, the smallest sizes first; the last one is for all larger instances.
    programs : dict
        From the names of found maps to the source of their programs.
    """

    entries: Mapping[str, tuple[Entry, ...]]
    programs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for problem in PROBLEMS:
            sizes = [entry.up_to for entry in self.entries.get(problem, ())]
            bounds = sizes[:-1]
            if not sizes or sizes[-1] is not None or None in bounds or bounds != sorted(set(bounds)):  # type: ignore[type-var]
                raise UsageError(f"maps of {problem}: needs entries of ascending up_to, and a last one without")
        for name in self.programs:
            if name in MAPS:
                raise UsageError(f"program {name!r}: a map of nco has that name")
        for entries in self.entries.values():
            for entry in entries:
                self._check_name(entry.map)

    def name_for(self, problem: str, num_nodes: int) -> str:
        """Return the name of the map for instances of a size."""
        return next(entry.map for entry in self.entries[problem] if entry.up_to is None or num_nodes <= entry.up_to)

    def map(self, name: str) -> ProjectionMap:
        """Return a map by its name.

        Raises
        ------
        UsageError
            If there is none of that name.
        ProgramFailure
            If it is a program that is not allowed to run.
        """
        self._check_name(name)
        return MAPS[name] if name in MAPS else as_map(compile_program(self.programs[name]))

    def names(self) -> list[str]:
        """Return the names of all maps."""
        return [*MAPS, *self.programs]

    def with_program(self, name: str, source: str, problem: str, up_to: int | None) -> ProjectionRegistry:
        """Return the registry with a found program that takes the place of the entry with the bound ``up_to``, if any.

        The smaller sizes down to the next bound below are its own from then on.
        """
        others = [entry for entry in self.entries[problem] if entry.up_to != up_to]
        entries = sorted([*others, Entry(name, up_to)], key=lambda entry: (entry.up_to is None, entry.up_to))
        return replace(
            self,
            entries={**self.entries, problem: tuple(entries)},
            programs={**self.programs, name: source},
        )

    def save(self, path: Path) -> None:
        """Write the registry as a file, whole or not at all."""
        maps = {
            problem: [{"map": entry.map} | ({} if entry.up_to is None else {"up_to": entry.up_to}) for entry in entries]
            for problem, entries in self.entries.items()
        }
        partial = path.with_name(path.name + ".partial")
        partial.write_text(yaml.safe_dump({"maps": maps, "programs": dict(self.programs)}, sort_keys=False))
        os.replace(partial, path)

    def _check_name(self, name: str) -> None:
        if name not in MAPS and name not in self.programs:
            raise UsageError(f"no projection map named {name!r}; there are {', '.join(self.names())}")


def read_registry(path: Path | None = None) -> ProjectionRegistry:
    """Read a registry; by default the one on the shelf ``models``.

    Raises
    ------
    UsageError
        If the file is missing, no YAML or no registry; the message names it.
    """
    path = path or nco.shelf("models") / FILE
    try:
        content: Any = yaml.safe_load(path.read_text())
        entries = {problem: tuple(Entry(**entry) for entry in lines) for problem, lines in content["maps"].items()}
        return ProjectionRegistry(entries, content.get("programs") or {})
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise UsageError(f"{path}: is no registry of projections: {error}") from error
