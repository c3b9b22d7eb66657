"""What a projection must keep to, tested before it is scored (the contract of :mod:`nco.projection.program`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nco.projection.check import ProgramFailure
from nco.projection.program import Project

# Sums in another order, in float32; coordinates are of the order of 1.
TOLERANCE = 1e-3


def check_result(before: Tensor, after: Tensor, result: Any) -> Tensor:
    """Return the result of one call if its form is right.

    Parameters
    ----------
    before, after : float [B, S, 2]
        The points before and after the call, which must be equal.
    result : Any
        What the program has returned.

    Raises
    ------
    ProgramFailure
        Of the kind "contract" or "non-finite".
    """
    if not isinstance(result, Tensor):
        raise ProgramFailure("contract", f"project returns a {type(result).__name__} instead of a tensor")
    if result.shape != before.shape:
        raise ProgramFailure("contract", f"the result has the shape {list(result.shape)}, not {list(before.shape)}")
    if result.dtype != before.dtype:
        raise ProgramFailure("contract", f"the result has the dtype {result.dtype}, not {before.dtype}")
    if not torch.equal(before, after):
        raise ProgramFailure("contract", "project changes its argument in place")
    if not bool(result.isfinite().all()):
        raise ProgramFailure("non-finite", "a projected coordinate is not finite")
    return result


def check_contract(project: Project) -> None:
    """Test a projection on small inputs: form, finiteness, independence of rows, order of candidates, odd inputs.

    Raises
    ------
    ProgramFailure
        Of the kind "contract" or "non-finite", naming the input; other kinds come from running the program.
    """
    points = probe_points()
    whole = _call(project, points, "8 ordinary rows")
    alone = torch.cat([_call(project, points[row : row + 1], "one row") for row in range(2)])
    _compare(alone, whole[:2], "a row of the result depends on the other rows of the batch")
    order = torch.from_numpy(np.random.default_rng(1).permutation(points.shape[1] - 2)) + 1
    order = torch.cat([order.new_tensor([0]), order, order.new_tensor([points.shape[1] - 1])])
    permuted = _call(project, points[:, order], "permuted candidates")
    _compare(permuted, whole[:, order], "the result depends on the order of the candidates")
    for name, odd in odd_points().items():
        _call(project, odd, name)


def probe_points() -> Tensor:
    """Return a fixed batch of decisions, float32 [8, 32, 2].

    A row holds the nearest nodes of a last node in an instance of some hundred to 50,000 nodes (so its region is wide
    or narrow), nearest first, and a far end node; the last two rows are clustered.
    """
    rng = np.random.default_rng(2506)
    rows = []
    for row, radius in enumerate((0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.3, 0.1)):
        last, first = rng.uniform(0.2, 0.8, 2), rng.uniform(0.0, 1.0, 2)
        spread = rng.uniform(-1, 1, (30, 2)) if row < 6 else 0.4 * rng.normal(size=(30, 2)).clip(-2.5, 2.5)
        candidates = np.clip(last + radius * spread, 0, 1)
        nearest = np.argsort(np.linalg.norm(candidates - last, axis=1))
        rows.append(np.concatenate([first[None], candidates[nearest], last[None]]))
    return torch.from_numpy(np.stack(rows)).to(torch.float32)


def odd_points() -> dict[str, Tensor]:
    """Return inputs at the edge of what occurs, by their description."""
    ordinary = probe_points()
    line = ordinary.clone()
    line[..., 1] = 0.5
    twins = ordinary[:, [0, 5, 5, 5, 7, 7, 31]]
    at_first = ordinary.clone()
    at_first[:, -1] = at_first[:, 0]
    odd = {
        "points that all coincide": torch.full((2, 12, 2), 0.25),
        "points on a horizontal line": line,
        "points on a vertical line": line.flip(-1),
        "points that coincide in part": twins,
        "a single candidate": ordinary[:, [0, 3, 31]],
        "two candidates": ordinary[:, [0, 3, 4, 31]],
        "the last node at the first": at_first,
        "points 1e-4 apart": 0.5 + 1e-4 * (ordinary - 0.5),
    }
    odd["101 candidates"] = torch.cat([ordinary, ordinary[:, 1:31].flip(-1), 1 - ordinary, ordinary[:, 1:10]], dim=1)
    return odd


def _call(project: Project, points: Tensor, name: str) -> Tensor:
    given = points.clone()
    try:
        return check_result(points, given, project(given))
    except ProgramFailure as failure:
        raise ProgramFailure(failure.kind, f"{failure.message} (input: {name})") from None


def _compare(result: Tensor, expected: Tensor, complaint: str) -> None:
    # Relative to the size of the coordinates: maps without a bound may leave the unit square.
    size = max(1.0, float(expected.abs().max()))
    if float((result - expected).abs().max()) > TOLERANCE * size:
        raise ProgramFailure("contract", complaint)
