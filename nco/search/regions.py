"""Disjoint regions of tours that can be rebuilt side by side, and the nodes taken out of each.

The nodes of an instance are divided among cells. A node may be removed if both its neighbours on the tour are in its
own cell (or are the depot): then every edge that a rebuild changes starts in the cell, the change of length is exact,
and each region is accepted or rejected on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nco.search.partial import PartialSolutions


@dataclass(frozen=True)
class Regions:
    """R regions, the largest holes first.

    Attributes
    ----------
    instance : int64 [R]
    members : int64 [R, M]
        The tokens that own the region's edges, padded: its nodes, the depot tokens of routes that begin in it, and
        empty depot tokens for new routes.
    removed : int64 [R, A]
        The nodes taken out, padded.
    sizes : int64 [R]
        How many those are.
    """

    instance: Tensor
    members: Tensor
    removed: Tensor
    sizes: Tensor


@dataclass(frozen=True)
class RegionRule:
    """How regions and holes are drawn.

    Attributes
    ----------
    size : int
        Nodes per region, about. An instance of fewer than one and a half times as many is one region.
    holes : (int, int)
        Smallest and largest number of nodes removed, drawn uniformly for every region.
    single : bool
        Whether to rebuild one region of each instance at a time, as the paper does, instead of all.
    """

    size: int = 100
    holes: tuple[int, int] = (4, 50)
    single: bool = False

    def count(self, num_nodes: int) -> int:
        """Return the number of cells of an instance."""
        return max(round(num_nodes / self.size), 1)


def voronoi_cells(
    places: NDArray[np.float64], count: int, rng: np.random.Generator, lloyd: int = 2
) -> NDArray[np.int64]:
    """Divide points among cells around random centres, evened out by Lloyd steps.

    Parameters
    ----------
    places : float [n, 2]
    count : int

    Returns
    -------
    int64 [n]
        Cell numbers below ``count``; a cell may be empty.
    """
    from scipy.spatial import cKDTree

    if count == 1:
        return np.zeros(len(places), dtype=np.int64)
    centres = places[rng.choice(len(places), size=min(count, len(places)), replace=False)]
    for step in range(lloyd + 1):
        _, cell = cKDTree(centres).query(places)
        if step < lloyd:
            visits = np.bincount(cell, minlength=len(centres))
            sums = [np.bincount(cell, weights=places[:, axis], minlength=len(centres)) for axis in (0, 1)]
            centres = np.where(visits[:, None] > 0, np.stack(sums, axis=1) / np.maximum(visits, 1)[:, None], centres)
    return np.asarray(cell, dtype=np.int64)


def draw_regions(partial: PartialSolutions, rule: RegionRule, rng: np.random.Generator) -> Regions | None:
    """Draw regions of every instance and the nodes to remove from each, or None where nothing can be removed.

    The partial solutions must be complete; they are not changed.
    """
    cell, cells_per_instance = _cells(partial, rule, rng)
    removable = _removable(partial, cell)
    count = len(partial.batch) * cells_per_instance
    candidates = _members(torch.where(removable, cell, -1), count, partial.pad)
    holes, sizes = _holes(partial, rule, candidates, rng)
    if rule.single:
        keep = torch.arange(count, device=cell.device) % cells_per_instance == int(rng.integers(cells_per_instance))
        sizes = torch.where(keep, sizes, 0)
    kept = torch.argsort(sizes, descending=True, stable=True)
    kept = kept[sizes[kept] > 0]
    if not len(kept):
        return None
    sizes = sizes[kept]
    if partial.is_cvrp:
        _share_empty_routes(partial, cell, kept, sizes, cells_per_instance)
    members = _members(cell, count, partial.pad)[kept]
    instance = torch.div(kept, cells_per_instance, rounding_mode="floor")
    return Regions(instance, members, holes[kept, : int(sizes[0])], sizes)


def _cells(partial: PartialSolutions, rule: RegionRule, rng: np.random.Generator) -> tuple[Tensor, int]:
    """Return the cell of every token [B * T + 1], -1 where it has none, and the number of cells of an instance."""
    batch = partial.batch
    first = int(partial.is_cvrp)
    per_instance = rule.count(batch.num_nodes - first)
    rows = len(batch)
    cell = torch.full((rows, partial.tokens), -1, dtype=torch.long, device=batch.device)
    if per_instance == 1:
        cell[:, first : batch.num_nodes] = torch.arange(rows, device=batch.device)[:, None]
    else:
        places = batch.coords[:, first:].double().cpu().numpy()
        found = np.stack([voronoi_cells(of_row, per_instance, rng) for of_row in places])
        found += np.arange(rows)[:, None] * per_instance
        cell[:, first : batch.num_nodes] = torch.from_numpy(found).to(batch.device)
    cell = torch.cat([cell.flatten(), cell.new_full((1,), -1)])
    if partial.is_cvrp:
        # The edge that leaves the depot belongs to the cell of the route's first customer.
        begins = partial.is_depot & ~partial.is_depot[partial.succ]
        cell = torch.where(begins, cell[partial.succ], cell)
    return cell, per_instance


def _removable(partial: PartialSolutions, cell: Tensor) -> Tensor:
    """Return the tokens whose removal changes edges of their own cell only, bool [B * T + 1]."""

    def is_inside(neighbour: Tensor) -> Tensor:
        return partial.is_depot[neighbour] | (cell[neighbour] == cell)

    return (cell >= 0) & ~partial.is_depot & is_inside(partial.pred) & is_inside(partial.succ)


def _members(cell: Tensor, count: int, pad: int) -> Tensor:
    """Return the tokens of each cell, int64 [count, M], padded."""
    token = torch.nonzero(cell >= 0).squeeze(1)
    of_cell, order = torch.sort(cell[token], stable=True)
    token = token[order]
    sizes = torch.bincount(of_cell, minlength=count)
    place = torch.arange(len(token), device=cell.device) - (sizes.cumsum(0) - sizes)[of_cell]
    members = cell.new_full((count, max(int(sizes.max()), 1)), pad)
    members[of_cell, place] = token
    return members


def _holes(
    partial: PartialSolutions, rule: RegionRule, candidates: Tensor, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Pick the nodes nearest to a random candidate of each region: int64 [R, A], nearest first, and sizes [R]."""
    count, width = candidates.shape
    device = candidates.device
    real = candidates != partial.pad
    available = real.sum(dim=1)
    if not partial.is_cvrp:
        # A tour keeps at least two nodes to insert between.
        available = available.clamp(max=partial.batch.num_nodes - 2)
    draws = torch.from_numpy(rng.random((2, count))).to(device)
    centre = candidates.gather(1, (draws[0] * real.sum(dim=1)).long()[:, None])
    distance = (partial.nodes[candidates, :2] - partial.nodes[centre, :2]).norm(dim=-1).masked_fill(~real, torch.inf)
    low, high = rule.holes
    high = min(high, width)
    order = torch.sort(distance, dim=1, stable=True).indices[:, :high]
    low_size = available.clamp(max=low)
    high_size = available.clamp(max=high)
    sizes = low_size + (draws[1] * (high_size - low_size + 1)).long()
    sizes = torch.minimum(sizes, high_size)
    outside = torch.arange(high, device=device) >= sizes[:, None]
    return candidates.gather(1, order).masked_fill(outside, partial.pad), sizes


def _share_empty_routes(
    partial: PartialSolutions, cell: Tensor, kept: Tensor, sizes: Tensor, cells_per_instance: int
) -> None:
    """Give each region empty depot tokens, as many as it removes nodes where there are enough; changes ``cell``."""
    tokens = torch.arange(partial.size, device=cell.device)
    is_empty = partial.is_depot[:-1] & (partial.succ[:-1] == tokens)
    # Empty tokens of an instance are dealt out to its regions in turn.
    rank = is_empty.view(-1, partial.tokens).cumsum(dim=1).flatten() - 1
    wanted = torch.zeros(len(partial.batch) * cells_per_instance, dtype=torch.long, device=cell.device)
    wanted[kept] = sizes
    number = partial.instance_of(tokens) * cells_per_instance + rank % cells_per_instance
    use = is_empty & (torch.div(rank, cells_per_instance, rounding_mode="floor") < wanted[number])
    cell[:-1][use] = number[use]
