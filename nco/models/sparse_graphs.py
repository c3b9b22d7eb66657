"""Instances as sparse graphs for networks, many in one ``torch_geometric`` batch, and edge outputs as heats.

A TSP has an edge from each node to its k nearest. A CVRP has one from each customer to the k customers nearest to it,
and one from the depot to each customer and back. The edges of an instance stand together: first those to the nearest
nodes, node by node, then those from the depot, then those to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nco.instance import InstanceBatch
from nco.search.heat import SparseHeat

if TYPE_CHECKING:
    from torch_geometric.data import Batch


def node_features(problem: str) -> int:
    """Return how many numbers describe a node: two coordinates, or a CVRP's demand over the capacity."""
    return 2 if problem == "tsp" else 1


def sparse_graphs(batch: InstanceBatch, neighbours: Tensor) -> Batch:
    """Return the graphs of B instances in one.

    Parameters
    ----------
    batch : InstanceBatch
    neighbours : int64 [B, N, k]
        As :func:`nco.search.heat.nearest_graph` returns them.

    Returns
    -------
    torch_geometric.data.Batch
        With ``x`` float32 [B * N, F], ``edge_index`` int64 [2, B * E] and ``edge_attr`` float32 [B * E, 1], lengths.
    """
    from torch_geometric.data import Batch, Data

    edges = _edges(batch, neighbours)
    rows = torch.arange(len(batch), device=batch.device)[:, None]
    lengths = (batch.coords[rows, edges[:, 0]] - batch.coords[rows, edges[:, 1]]).norm(dim=-1, keepdim=True)
    nodes = batch.coords
    if batch.demand is not None and batch.capacity is not None:
        nodes = (batch.demand / batch.capacity[:, None]).float()[..., None]
    return Batch.from_data_list(
        [Data(x=nodes[row], edge_index=edges[row], edge_attr=lengths[row]) for row in range(len(batch))]
    )


def _edges(batch: InstanceBatch, neighbours: Tensor) -> Tensor:
    """Return sources and targets, int64 [B, 2, E]."""
    first = int(batch.problem == "cvrp")
    nodes = torch.arange(first, batch.num_nodes, device=batch.device).expand(len(batch), -1)
    near = torch.stack([nodes.repeat_interleave(neighbours.shape[2], dim=1), neighbours[:, first:].flatten(1)], dim=1)
    if not first:
        return near
    depot = torch.zeros_like(nodes)
    return torch.cat([near, torch.stack([depot, nodes], dim=1), torch.stack([nodes, depot], dim=1)], dim=2)


def edges_as_heat(batch: InstanceBatch, neighbours: Tensor, heat: Tensor) -> SparseHeat:
    """Return the heats of the edges of :func:`sparse_graphs`, float [B * E], as a sparse heat."""
    rows, size, width = neighbours.shape
    heat = heat.view(rows, -1)
    if batch.problem == "tsp":
        return SparseHeat(neighbours, heat.view(rows, size, width))
    customers = size - 1
    near, first, last = heat.split([customers * width, customers, customers], dim=1)
    near = torch.cat([heat.new_zeros(rows, 1, width), near.view(rows, customers, width)], dim=1)
    first, last = (torch.cat([heat.new_zeros(rows, 1), part], dim=1) for part in (first, last))
    return SparseHeat(neighbours, near, first, last)


def nearest_count(size: int, sparsity: int) -> int:
    """Return the neighbours k of each of ``size`` nodes: one ``sparsity``-th of them, and at least 5 if there are so
    many.
    """
    return max(min(max(size // sparsity, 5), size - 1), 1)
