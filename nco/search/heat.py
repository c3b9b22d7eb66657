"""Heats: what a network thinks of each edge of a sparse graph, which sampled construction and ACO follow."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# The heat of an edge outside of the sparse graph, and what is added to every other: all moves stay possible.
BACKGROUND = 1e-10


@dataclass(frozen=True)
class SparseHeat:
    """Heats of the edges from each node to its k nearest, of B instances of one size.

    Attributes
    ----------
    neighbours : int64 [B, N, k]
        The k nearest other nodes of each node, nearest first. In a CVRP those of customers are customers; the row of
        the depot, node 0, means nothing.
    heat : float32 [B, N, k]
        In (0, 1), of the edge from the node to each neighbour.
    from_depot, to_depot : float32 [B, N] or None
        CVRP: heats of the edges from the depot to each customer and back; entry 0 means nothing.
    """

    neighbours: Tensor
    heat: Tensor
    from_depot: Tensor | None = None
    to_depot: Tensor | None = None
