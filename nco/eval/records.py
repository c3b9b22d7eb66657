"""What is known about one solution, as a flat JSON object."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from nco.instance import Instance
from nco.solution import Solution

Record = dict[str, Any]


def solution_record(instance: Instance, solution: Solution) -> Record:
    """Return the record of a feasible solution.

    Returns
    -------
    dict
        ``name``, ``problem``, ``num_nodes``, ``solver``, ``cost``, ``reference`` (a cost or None), ``gap`` (percent or
        None), ``seconds``, ``feasible``, ``seed`` and ``routes``: lists of the file's own node ids, without the depot.
    """
    assert instance.node_ids is not None
    return {
        "name": instance.name,
        "problem": instance.problem,
        "num_nodes": instance.num_nodes,
        "solver": solution.solver,
        "cost": solution.cost,
        "reference": None if instance.reference is None else instance.reference.cost,
        "gap": solution.gap(instance),
        "seconds": solution.seconds,
        "feasible": True,
        "seed": solution.seed,
        "routes": [instance.node_ids[route].tolist() for route in solution.routes],
    }


def failure_record(instance: Instance, solver: str, seed: int) -> Record:
    """Return the record of a failure: the same fields, of which only a solution's are None."""
    return {
        "name": instance.name,
        "problem": instance.problem,
        "num_nodes": instance.num_nodes,
        "solver": solver,
        "cost": None,
        "reference": None if instance.reference is None else instance.reference.cost,
        "gap": None,
        "seconds": None,
        "feasible": False,
        "seed": seed,
        "routes": None,
    }


def to_json(record: Record) -> str:
    """Return a record as one line of JSON.

    Numbers of numpy become plain ones, those that JSON lacks (infinite, not a number) null, and other objects text.
    """
    return json.dumps(_plain(record), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
