"""The nodes of a decision as points, and the decision with its nodes shown elsewhere: what all projections share.

A decision is what a scorer sees: :class:`nco.search.candidates.Candidates` of a solver that appends, or
:class:`nco.search.window.Window` of one that inserts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from nco.search.candidates import Candidates
from nco.search.window import Window

Decision = TypeVar("Decision", Candidates, Window)


def decision_points(decision: Candidates | Window) -> tuple[Tensor, Tensor]:
    """Return the points of R decisions in the order of :mod:`nco.projection.maps`, and which there are.

    Of a window, slot 0 is the depot, or for a TSP the current node, and the last slot is the current node; between
    them are the other open nodes, the left and the right ends of positions.

    Returns
    -------
    float [R, S, 2], bool [R, S]
    """
    if isinstance(decision, Candidates):
        groups = [decision.first[:, None], decision.nodes, decision.last[:, None]]
        inner = [decision.mask]
    else:
        current = decision.current[:, None]
        # A CVRP's last position is the new route, both of whose ends are the depot.
        first = current if decision.remaining is None else decision.left[:, -1:]
        groups = [first, decision.unvisited, decision.left, decision.right, current]
        seen = decision.position_mask
        if decision.remaining is not None:
            seen = seen.clone()
            seen[:, -1] = False
        inner = [decision.unvisited_mask, seen, seen]
    end = inner[0].new_ones(len(decision), 1)
    return torch.cat([group[..., :2] for group in groups], dim=1), torch.cat([end, *inner, end], dim=1)


def moved(decision: Decision, points: Tensor) -> Decision:
    """Return a decision with its nodes at other points, float [R, S, 2]."""

    def put(nodes: Tensor, at: Tensor) -> Tensor:
        return torch.cat([at, nodes[..., 2:]], dim=-1)

    if isinstance(decision, Candidates):
        first, last = put(decision.first, points[:, 0]), put(decision.last, points[:, -1])
        return replace(decision, first=first, nodes=put(decision.nodes, points[:, 1:-1]), last=last)
    places = decision.left.shape[1]
    unvisited, left, right = points[:, 1:-1].split([decision.unvisited.shape[1], places, places], dim=1)
    return replace(
        decision,
        current=put(decision.current, points[:, -1]),
        unvisited=put(decision.unvisited, unvisited),
        left=put(decision.left, left),
        right=put(decision.right, right),
    )
