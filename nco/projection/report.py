"""What a search leaves behind: its report, the winner's program, and a registry that uses it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nco.projection.evolution import Outcome
from nco.projection.journal import write_whole
from nco.projection.registry import FILE, read_registry

REPORT, PROGRAM = "report.json", "winner.py"


def report(outcome: Outcome, protections: Mapping[str, bool]) -> dict[str, Any]:
    """Return the report in JSON's types: the winner, its paired comparison with the seed on the test set, counts."""
    return {
        "winner": outcome.winner.number,
        "idea": outcome.winner.idea,
        "source": outcome.winner.source,
        "test": asdict(outcome.comparison),
        "scored": outcome.scored,
        "proposed": outcome.proposed,
        "duplicates": outcome.duplicates,
        "failures": outcome.failures,
        "usage": outcome.usage,
        "sandbox": dict(protections),
    }


def write_report(folder: Path, content: Mapping[str, Any], name: str, problem: str, num_nodes: int) -> None:
    """Write the report, the winner's program and, unless the seed has won, a registry that takes it for its size.

    Parameters
    ----------
    folder : Path
    content : mapping
        As :func:`report` returns it.
    name : str
        The winner's in the registry.
    problem : {"tsp", "cvrp"}
    num_nodes : int
        It takes the place of the map that the registry has for instances of this size.
    """
    write_whole(folder / REPORT, json.dumps(content, indent=1) + "\n")
    write_whole(folder / PROGRAM, content["source"])
    if content["winner"] == 0:
        return
    registry = read_registry()
    bounds = [entry.up_to for entry in registry.entries[problem]]
    up_to = next(bound for bound in bounds if bound is None or num_nodes <= bound)
    registry.with_program(name, content["source"], problem, up_to).save(folder / FILE)
