"""A projection program: the source text of a pure function on tensors, and the map that it stands for.

**The contract.** A program defines ``project(points)``. ``points`` is a float tensor [B, S, 2], B decisions of a
construction at once: slot 0 is the node where the path must end (the first node of a TSP, the depot of a CVRP), slot
S - 1 the last node of the path built so far, and the S - 2 >= 1 slots between them are the candidates, nearest first.
The result has the same shape and dtype, and holds the coordinates that the network sees instead. They steer the choice
alone: lengths are measured on the original coordinates. ``torch`` and ``math`` are there without an import, and what
may be used of them is listed in :mod:`nco.projection.check`; what else is asked of a program is tested by
:mod:`nco.projection.contract`.

All rows that a program sees have the same number of candidates, so it needs no mask: :func:`as_map` calls it once for
each number that occurs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nco.projection.check import BUILTINS, checked_tree
from nco.projection.maps import ProjectionMap

# From points [B, S, 2] to projected points of the same shape: a program's own form.
Project = Callable[[Tensor], Tensor]

FUNCTION = "project"


def compile_program(source: str) -> Project:
    """Return the function of a program that has passed the check, in this process.

    For programs that somebody has chosen to trust, and inside the sandbox. Everything else runs through
    :class:`nco.projection.sandbox.Sandbox`.

    Raises
    ------
    ProgramFailure
        Of the kind "syntax" or "forbidden".
    """
    namespace = program_namespace()
    exec(compile(checked_tree(source), "<projection>", "exec"), namespace)
    return namespace[FUNCTION]


def program_namespace() -> dict[str, Any]:
    """Return the global names that a program starts with."""
    functions = {function.__name__: function for function in BUILTINS}
    # Torch's own functions import through the caller's __import__ at their first call; the check refuses the name.
    return {"__builtins__": {**functions, "__import__": __import__}, "torch": torch, "math": math}


def as_map(project: Project) -> ProjectionMap:
    """Return the map of a program: rows with the same number of candidates are projected together.

    Missing candidates keep their coordinates, which nothing sees.
    """

    def project_masked(points: Tensor, mask: Tensor) -> Tensor:
        if bool(mask.all()):
            return project(points)
        projected = points.clone()
        counts = mask.sum(dim=1)
        for count in counts.unique().tolist():
            rows = (counts == count).nonzero().squeeze(1)
            slots = mask[rows].nonzero()[:, 1].view(len(rows), count)
            index = slots.unsqueeze(-1).expand(-1, -1, 2)
            kept = points[rows]
            projected[rows] = kept.scatter(1, index, project(kept.gather(1, index)))
        return projected

    return project_masked
