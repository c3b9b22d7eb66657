"""Greedy construction by insertion: from one node, or from the depot alone, to complete solutions."""

from __future__ import annotations

import torch
from torch import Tensor

from nco.instance import InstanceBatch
from nco.search.partial import PartialSolutions
from nco.search.rebuild import Rebuild, Scorer
from nco.search.regions import Regions
from nco.search.window import WindowRule


def construct_greedily(batch: InstanceBatch, scorer: Scorer, window: WindowRule) -> Tensor:
    """Insert all nodes of every instance, each next to the last one inserted, at the best-scored position.

    A TSP starts from node 0. A CVRP starts without routes, and its order at the depot, whose polar angle counts as 0.
    A step takes time linear in the number of nodes.

    Returns
    -------
    int64 [B, L]
        Giant tours.
    """
    partial = PartialSolutions(batch)
    first = partial.depot[:, None]
    members = first + torch.arange(partial.tokens, device=batch.device)
    # Node 0 is the depot, or the node that the tour starts from.
    removed = first + torch.arange(1, batch.num_nodes, device=batch.device)
    sizes = torch.full_like(partial.depot, removed.shape[1])
    regions = Regions(torch.arange(len(batch), device=batch.device), members, removed, sizes)
    spare = batch.capacity[:, None].expand_as(members).clone() if batch.capacity is not None else None
    rebuild = Rebuild(partial, regions, window, spare)
    complete = rebuild.run(scorer, partial.depot)
    if not bool(complete.all()):
        # A new route always fits, so this is a scorer that returns minus infinity or NaN where it must not.
        raise ValueError(f"row {int(complete.int().argmin())}: the scorer allowed no position for some node")
    rebuild.commit(complete)
    return partial.tours()
