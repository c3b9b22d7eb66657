"""Wrappers of scorers: decisions are shown projected, or in all eight symmetries of the square at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from nco.geometry import square_symmetries
from nco.instance import Instance, InstanceBatch
from nco.projection.decisions import Decision, decision_points, moved
from nco.projection.maps import ProjectionMap
from nco.search.appending import append_greedily
from nco.search.candidates import CandidateScorer
from nco.search.lengths import InstanceLengths

VIEWS = 8


def projected(scorer: Callable[[Decision], Tensor], projection: ProjectionMap) -> Callable[[Decision], Tensor]:
    """Return a scorer that is shown its decisions through a projection map."""

    def score(decision: Decision) -> Tensor:
        return scorer(moved(decision, projection(*decision_points(decision))))

    return score


def fused(scorer: Callable[[Decision], Tensor]) -> Callable[[Decision], Tensor]:
    """Return a scorer that sees every decision in eight symmetries, and sums their scores before any softmax.

    Multi-view decision fusion of TTPL (section 4.3, equation 3). The views go through the scorer as one batch. To fuse
    projected views, wrap in this order: ``projected(fused(network), map)``.
    """

    def score(decision: Decision) -> Tensor:
        rows = len(decision)
        points, _ = decision_points(decision)
        views = square_symmetries(points).flatten(0, 1)
        repeated = decision.map(lambda tensor: tensor.repeat(VIEWS, *[1] * (tensor.ndim - 1)))
        return scorer(moved(repeated, views)).view(VIEWS, rows, -1).sum(dim=0)

    return score


def in_pieces(scorer: Callable[[Decision], Tensor], rows: int) -> Callable[[Decision], Tensor]:
    """Return a scorer that takes decisions of any number of rows and hands on at most so many at once."""

    def score(decision: Decision) -> Tensor:
        if len(decision) <= rows:
            return scorer(decision)
        return torch.cat([scorer(decision[begin : begin + rows]) for begin in range(0, len(decision), rows)])

    return score


def append_best_of_views(
    instances: Sequence[Instance],
    batch: InstanceBatch,
    scorer: CandidateScorer,
    k: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Solve every instance in eight symmetries greedily and return the shortest of their tours.

    POMO's augmentation (Kwon et al. 2020); see :func:`nco.search.appending.append_greedily`.

    Returns
    -------
    int64 [B, L]
        Giant tours; the first view's on ties.
    """
    rows = len(batch)
    tours = append_greedily(batch.symmetries(), scorer, k, progress)
    costs = InstanceLengths([*instances] * VIEWS).of_tours(tours.cpu().numpy())
    best = np.argmin(costs.reshape(VIEWS, rows), axis=0) * rows + np.arange(rows)
    return tours[torch.from_numpy(best).to(tours.device)]
