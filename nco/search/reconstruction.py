"""Local reconstruction: take compact holes out of complete solutions and let a scorer fill them again.

Section 4 of the L2C-Insert paper rebuilds one hole of each instance at a time and keeps what got shorter. Here many
disjoint regions of one instance are rebuilt as rows of one batch, and each is kept or given back on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nco.instance import Instance, InstanceBatch
from nco.search.partial import EdgeLengths, PartialSolutions
from nco.search.rebuild import Rebuild, Scorer
from nco.search.regions import RegionRule, Regions, draw_regions
from nco.search.window import WindowRule

# A rebuilt region must be shorter by more than rounding errors of the sum.
STRICTLY = 1e-9


@dataclass
class ReconstructionLog:
    """What a reconstruction did: node insertions and regions kept, iterations, and costs over time."""

    iterations: int = 0
    insertions: int = 0
    regions: int = 0
    improved: int = 0
    points: list[tuple[float, np.ndarray]] = field(default_factory=list)


def reconstruct(
    instances: Sequence[Instance],
    batch: InstanceBatch,
    tours: Tensor,
    scorer: Scorer,
    rng: np.random.Generator,
    *,
    window: WindowRule,
    regions: RegionRule,
    iterations: int | None = None,
    time_limit: float | None = None,
    replicas: int = 1,
    progress: Callable[[int], None] | None = None,
) -> tuple[Tensor, ReconstructionLog]:
    """Improve complete solutions of same-size instances; none gets longer.

    Parameters
    ----------
    instances, batch
        The same instances, in their own units and as tensors. Lengths are compared in the instances' own metric.
    tours : int64 [B, L]
        Giant tours.
    scorer : Scorer
        A network, or :func:`nco.search.window.cheapest_insertion` as control.
    rng : numpy.random.Generator
    window, regions
        What the scorer sees, and how holes are drawn.
    iterations : int, optional
        In each, every region of every instance is rebuilt once.
    time_limit : float, optional
        Wall-clock seconds for all instances together. One of the two limits is needed.
    replicas : int
        Rebuild so many copies of every instance side by side, each with holes of its own, and go on from the best one:
        for a few small instances, whose regions alone would make too small a batch.
    progress : callable, optional
        Called with the number of iterations done.

    Returns
    -------
    int64 [B, L], ReconstructionLog
    """
    if iterations is None and time_limit is None:
        raise ValueError("a reconstruction needs a limit: iterations or time_limit")
    started = time.perf_counter()
    if replicas > 1:
        instances = [instance for instance in instances for _ in range(replicas)]
        batch, tours = batch.repeat_interleave(replicas), tours.repeat_interleave(replicas, dim=0)
    partial = PartialSolutions(batch, tours)
    lengths = EdgeLengths(instances, partial)
    cost = solution_costs(partial, lengths)
    log = ReconstructionLog(points=[(0.0, cost[::replicas].cpu().numpy())])
    while iterations is None or log.iterations < iterations:
        if time_limit is not None and time.perf_counter() - started >= time_limit:
            break
        drawn = draw_regions(partial, regions, rng)
        if drawn is None:
            break
        change = rebuild_regions(partial, drawn, lengths, scorer, window, rng)
        cost = cost.index_add(0, drawn.instance, change)
        if replicas > 1:
            lowest, best = cost.view(-1, replicas).min(dim=1)
            partial.copy_best(best)
            cost = lowest.repeat_interleave(replicas)
        log.iterations += 1
        log.insertions += int(drawn.sizes.sum())
        log.regions += len(drawn.sizes)
        log.improved += int((change < 0).sum())
        log.points.append((time.perf_counter() - started, cost[::replicas].cpu().numpy()))
        if progress is not None:
            progress(log.iterations)
    return partial.tours()[::replicas], log


def solution_costs(partial: PartialSolutions, lengths: EdgeLengths) -> Tensor:
    """Return the cost of every instance, float64 [B]."""
    tokens = torch.arange(partial.size, device=partial.succ.device)
    return lengths(tokens, partial.succ[:-1]).view(len(partial.batch), -1).sum(dim=1)


def rebuild_regions(
    partial: PartialSolutions,
    regions: Regions,
    lengths: EdgeLengths,
    scorer: Scorer,
    window: WindowRule,
    rng: np.random.Generator,
) -> Tensor:
    """Empty and refill every region, and give back those that did not get shorter.

    Returns
    -------
    float64 [R]
        The change of length of each region, 0 where it was given back.
    """
    members = regions.members
    old_succ, old_route = partial.succ[members], partial.route[members]
    old_length = lengths(members, old_succ).sum(dim=1)
    spare = _spare_capacity(partial, regions) if partial.is_cvrp else None
    partial.remove(regions.removed)
    rebuild = Rebuild(partial, regions, window, spare)
    complete = rebuild.run(scorer, _entrance(partial, members, rng))
    change = lengths(members, rebuild.succ).sum(dim=1) - old_length
    kept = complete & (change < -STRICTLY * old_length.clamp(min=1.0))
    rebuild.commit(kept)
    back = ~kept
    partial.set_links(members[back].flatten(), old_succ[back].flatten(), old_route[back].flatten())
    return torch.where(kept, change, 0.0)


def _entrance(partial: PartialSolutions, members: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a random token of each region that is still on a tour; the insertion order starts next to it."""
    stays = partial.placed[members]
    draws = torch.from_numpy(rng.random(members.shape, dtype=np.float32)).to(members.device)
    choice = (draws + stays).argmax(dim=1, keepdim=True)
    chosen = members.gather(1, choice).squeeze(1)
    # A region may lose all its customers; then its order starts at the depot.
    return torch.where(stays.any(dim=1), chosen, partial.node[chosen])


def _spare_capacity(partial: PartialSolutions, regions: Regions) -> Tensor:
    """Return the capacity that each region may use on its members' routes, int64 [R, M]: together never too much.

    A region may use what it frees itself. What a route had to spare before goes to one of the regions that touch it.
    """
    members = regions.members
    route = partial.route[members]
    slack = partial.slack()
    region = torch.arange(len(members), device=members.device)
    owner = torch.full_like(partial.route, -1)
    owner.scatter_reduce_(0, route.flatten(), region[:, None].expand_as(route).flatten(), "amax")
    freed = torch.zeros_like(route)
    removed_route, removed_demand = partial.route[regions.removed], partial.demand[regions.removed]
    for column in range(regions.removed.shape[1]):
        same = route == removed_route[:, column : column + 1]
        freed += torch.where(same, removed_demand[:, column : column + 1], 0)
    return freed + torch.where(owner[route] == region[:, None], slack[route], 0)
