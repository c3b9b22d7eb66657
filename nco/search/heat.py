"""Heats: what a network thinks of each edge of a sparse graph, which sampled construction and ACO follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nco.geometry import k_nearest
from nco.instance import InstanceBatch

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

    def detach(self) -> SparseHeat:
        """Return the heats without gradients."""
        depot = (None if part is None else part.detach() for part in (self.from_depot, self.to_depot))
        return SparseHeat(self.neighbours, self.heat.detach(), *depot)


def concatenated(heats: Sequence[SparseHeat]) -> SparseHeat:
    """Return the heats of the instances of several batches as one."""
    fields = zip(*((heat.neighbours, heat.heat, heat.from_depot, heat.to_depot) for heat in heats), strict=True)
    return SparseHeat(*(None if parts[0] is None else torch.cat(parts) for parts in fields))  # type: ignore[arg-type]


def nearest_graph(batch: InstanceBatch, k: int) -> Tensor:
    """Return the k nearest other nodes of each node, or as many as there are, nearest first: int64 [B, N, k].

    In a CVRP customers have customers only, and the row of the depot is zeros.
    """
    first = int(batch.problem == "cvrp")
    coords = batch.coords.cpu().numpy().astype(np.float64)
    near = np.stack([k_nearest(points[first:], k) + first for points in coords])
    return torch.from_numpy(np.pad(near, ((0, 0), (first, 0), (0, 0)))).to(batch.device)


def distance_heat(batch: InstanceBatch, k: int) -> SparseHeat:
    """Return heats in inverse proportion to lengths, the shortest edge of an instance having 1: what ants follow
    without a network.
    """
    neighbours = nearest_graph(batch, k)
    rows = torch.arange(len(batch), device=batch.device)[:, None, None]
    lengths = (batch.coords[rows, neighbours] - batch.coords[:, :, None]).norm(dim=-1)
    if batch.problem == "tsp":
        return SparseHeat(neighbours, _inverse(lengths, lengths))
    to_depot = (batch.coords - batch.coords[:, :1]).norm(dim=-1)
    edges = torch.cat([lengths[:, 1:].flatten(1), to_depot[:, 1:]], dim=1)
    heat, depot = _inverse(lengths, edges), _inverse(to_depot, edges)
    return SparseHeat(neighbours, heat, depot, depot)


def _inverse(lengths: Tensor, edges: Tensor) -> Tensor:
    """Return the shortest positive length of each row of edges over lengths [B, ...]; 1 for edges of no length."""
    shortest = edges.flatten(1).masked_fill(edges.flatten(1) == 0, torch.inf).amin(dim=1)
    shortest = shortest.view(-1, *[1] * (lengths.ndim - 1))
    return torch.where(lengths > 0, shortest / lengths, 1.0).clamp(max=1.0)
