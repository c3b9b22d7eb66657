"""What a projection does to a fixed batch of decisions: how two programs are known to be the same map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from nco.geometry import square_symmetries
from nco.projection.contract import probe_points
from nco.projection.program import Project

# Slots of the probe that are compared: the first node, some candidates, the last node.
_SLOTS = (0, 1, 4, 9, 16, 23, 30, 31)
# Maps as near as this lead to the same decisions almost always.
TOLERANCE = 2e-4

Fingerprint = list[float]


def fingerprint(project: Project) -> Fingerprint:
    """Return where a projection puts some nodes of the probe, rounded.

    Raises
    ------
    ProgramFailure
        If the program fails.
    """
    return [round(value, 5) for value in project(probe_points())[:, _SLOTS].flatten().tolist()]


class Behaviours:
    """The fingerprints of programs so far; two that differ by a symmetry of the square count as the same.

    A network trained on all symmetries, or fused over them, is shown the same by both.
    """

    def __init__(self) -> None:
        self._known: list[NDArray[np.float64]] = []
        self._numbers: list[int] = []

    def add(self, number: int, mark: Sequence[float]) -> None:
        """Remember the fingerprint of a program."""
        self._known.append(np.asarray(mark))
        self._numbers.append(number)

    def twin(self, mark: Sequence[float]) -> int | None:
        """Return the number of the first program that does the same, or None."""
        if not self._known:
            return None
        points = torch.tensor(mark, dtype=torch.float64).view(-1, 2)
        images = square_symmetries(points).flatten(1).numpy()
        distance = np.abs(np.stack(self._known)[:, None] - images[None]).max(axis=2).min(axis=1)
        same = np.flatnonzero(distance <= TOLERANCE)
        return self._numbers[int(same[0])] if len(same) else None
