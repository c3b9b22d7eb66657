"""The decision of a solver that appends nodes: which candidate follows the last node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Candidates:
    """One append decision per row, as a scorer sees it.

    A node is described by F numbers: x, y, and for a CVRP its demand over the capacity.

    Attributes
    ----------
    first : float [R, F]
        Where the path must end in the end: the destination of a TSP, the depot of a CVRP.
    last : float [R, F]
        The end of the path built so far; the depot right after a return to it.
    nodes : float [R, K, F]
        Unvisited nodes that may come next, nearest to the last node first where there is a choice of k.
    mask : bool [R, K]
        False where a row has fewer candidates: such a slot is seen by nothing.
    remaining : float [R] or None
        CVRP: capacity left on the open route over the capacity.
    fits : bool [R, K] or None
        CVRP: which candidates the open route still has room for; the others can be reached via the depot only.
    """

    first: Tensor
    last: Tensor
    nodes: Tensor
    mask: Tensor
    remaining: Tensor | None = None
    fits: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Candidates:
        """Return the candidates with a function applied to each of their tensors."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return replace(self, **{name: function(value) for name, value in values.items() if value is not None})

    def __getitem__(self, rows: Tensor | slice) -> Candidates:
        """Return some rows."""
        return self.map(lambda tensor: tensor[rows])

    def __len__(self) -> int:
        return self.first.shape[0]


# From the candidates of R rows to scores, minus infinity where a move is not allowed: float [R, K] for a TSP; float
# [R, 2K] for a CVRP, first K to go to a candidate directly, then K to go to it via the depot. Scores are logits: their
# softmax over a row is the policy.
CandidateScorer = Callable[[Candidates], Tensor]


def nearest_first(candidates: Candidates) -> Tensor:
    """Score candidates by how near they are: the control that stands in for a network.

    Decoding with it is nearest-neighbour construction: a CVRP goes home when no candidate fits, and from there on to
    the candidate that is nearest to the depot.

    Returns
    -------
    float [R, K] or [R, 2K]
        See :data:`CandidateScorer`.
    """

    def nearness(node: Tensor, allowed: Tensor) -> Tensor:
        distance = (candidates.nodes[..., :2] - node[:, None, :2]).norm(dim=-1)
        return torch.where(allowed, -distance, -torch.inf)

    if candidates.fits is None:
        return nearness(candidates.last, candidates.mask)
    direct = candidates.mask & candidates.fits
    via_depot = candidates.mask & ~direct.any(dim=1, keepdim=True)
    return torch.cat([nearness(candidates.last, direct), nearness(candidates.first, via_depot)], dim=1)
