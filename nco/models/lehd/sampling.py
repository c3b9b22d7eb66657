"""Paths with known best continuations, sampled from labelled tours: the training states of LEHD.

All states are drawn in tensors and are independent of one another, unlike the released training, which walks through
each sub-tour step by step. A state is a moment within a *segment*, a run of consecutive nodes of the label: the nodes
behind the last one, up to where the segment ends, are open. Two kinds share this form:

- ``segment`` (the paper's): a segment of w ~ U{4..n} nodes. This is what random reconstruction meets.
- ``whole``: the whole solution. This is what greedy construction from scratch meets.

A TSP's segment ends at a node that is fixed, as its first is; a whole tour ends where it started. A CVRP's segment ends
with a return to the depot; its routes come in any order and direction, as they mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nco.errors import UsageError
from nco.models.labelled import LabelledBatch, label_sequence
from nco.search.candidates import Candidates
from nco.search.window import nearest_slots, pick

SMALLEST_SEGMENT = 4


@dataclass(frozen=True)
class TrainingStates:
    """Append decisions and the moves that the label would make.

    Attributes
    ----------
    candidates : Candidates
    target : bool [R, K] for a TSP, [R, 2K] for a CVRP
        None where the label's next node is not among the candidates. More than one where moves are equally good: any
        end of any open route after a return to the depot, and from the depot directly as well as via it.
    """

    candidates: Candidates
    target: Tensor

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, rows: Tensor | slice) -> TrainingStates:
        """Return some rows."""
        return TrainingStates(self.candidates[rows], self.target[rows])


@dataclass(frozen=True)
class SegmentSampler:
    """Draws training states from labelled instances.

    Attributes
    ----------
    k : int
        How many of the open nodes are candidates: those nearest to the last node, as at inference.
    whole_share : float
        Share of states that come from whole solutions; the rest come from segments.
    """

    k: int = 100
    whole_share: float = 0.5

    def sample(self, batch: LabelledBatch, per_instance: int, generator: torch.Generator) -> TrainingStates:
        """Return ``per_instance`` states of every instance, [B * per_instance, ...], instance by instance."""
        count = batch.coords.shape[1] - (batch.demand is not None)
        if count < SMALLEST_SEGMENT:
            raise UsageError(f"segments need at least {SMALLEST_SEGMENT} nodes, there are {count}")
        rows = torch.arange(len(batch), device=batch.coords.device).repeat_interleave(per_instance)
        states = self._of_tours if batch.demand is None else self._of_routes
        return states(batch[rows], generator)

    def _lengths(self, sequence: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return which rows are of the kind ``whole`` [R], and the length of each row's segment [R]."""
        rows, count = sequence.shape
        draw = torch.rand(rows, generator=generator, device=sequence.device)
        limit = torch.full((rows,), count - SMALLEST_SEGMENT + 1, device=sequence.device)
        return draw < self.whole_share, SMALLEST_SEGMENT + _below(limit, generator)

    def _of_tours(self, batch: LabelledBatch, generator: torch.Generator) -> TrainingStates:
        sequence, _ = label_sequence(batch, generator)
        count = sequence.shape[1]
        is_whole, length = self._lengths(sequence, generator)
        # At least two nodes are open, so that there is a choice. A whole tour's destination is its start, which ends
        # it once more.
        most = torch.where(is_whole, count - 1, length - 2)
        num_open = 2 + _below(most - 1, generator)
        start = _below(torch.full_like(length, count), generator)
        place = torch.arange(count, device=sequence.device)
        # The last node, then the open ones in the order of the label, then the destination.
        ids = sequence.gather(1, (start[:, None] + place) % count)
        coords = pick(batch.coords, ids)
        destination = sequence.gather(1, ((start + num_open + 1) % count)[:, None])
        is_open = (place >= 1) & (place <= num_open[:, None])
        slots, candidates = self._nearest(coords, coords[:, 0], is_open)
        first = pick(batch.coords, destination)[:, 0]
        return TrainingStates(replace(candidates, first=first), (slots == 1) & candidates.mask)

    def _of_routes(self, batch: LabelledBatch, generator: torch.Generator) -> TrainingStates:
        assert batch.demand is not None and batch.capacity is not None
        sequence, route = _routes_in_random_order(batch, generator)
        count = sequence.shape[1]
        is_whole, length = self._lengths(sequence, generator)
        length = torch.where(is_whole, count, length)
        num_open = 2 + _below(length - 1, generator)
        # The segment is the end of the sequence, and so ends with a route, which the random order made any route.
        rank = (count - num_open)[:, None]
        place = torch.arange(count, device=sequence.device)
        previous = (rank - 1).clamp(min=0)
        last_route = route.gather(1, previous)
        starts_route = (rank == 0) | (route.gather(1, rank) != last_route)
        # A segment that starts with a route starts at the depot; within it the last node is a customer.
        at_depot = starts_route & (num_open == length)[:, None]
        customers = sequence + 1
        demand = batch.demand.gather(1, customers)
        load = torch.where((place < rank) & (route == last_route), demand, 0).sum(dim=1, keepdim=True)
        remaining = torch.where(at_depot, batch.capacity[:, None], batch.capacity[:, None] - load)
        nodes = torch.cat([batch.coords, (batch.demand / batch.capacity[:, None])[..., None].float()], dim=-1)
        last = pick(nodes, torch.where(at_depot, 0, customers.gather(1, previous)))[:, 0]
        slots, candidates = self._nearest(pick(nodes, customers), last, place >= rank)
        # Directly to the next customer, or via the depot to any end of any route that is left.
        is_end = torch.ones_like(route, dtype=torch.bool)
        is_end[:, 1:-1] = (route[:, 1:-1] != route[:, :-2]) | (route[:, 1:-1] != route[:, 2:])
        directly = torch.where(starts_route, at_depot & is_end, place == rank)
        via = starts_route & is_end
        fits = candidates.mask & (demand.gather(1, slots) <= remaining)
        target = torch.cat([directly.gather(1, slots), via.gather(1, slots)], dim=1) & candidates.mask.repeat(1, 2)
        candidates = replace(
            candidates, first=nodes[:, 0], fits=fits, remaining=(remaining / batch.capacity[:, None])[:, 0].float()
        )
        return TrainingStates(candidates, target)

    def _nearest(self, nodes: Tensor, last: Tensor, is_open: Tensor) -> tuple[Tensor, Candidates]:
        """Return the k open nodes nearest to the last one: their places [R, K] and the decision between them."""
        distance = (nodes[..., :2] - last[:, None, :2]).norm(dim=-1).masked_fill(~is_open, torch.inf)
        slots = nearest_slots(distance, self.k)
        return slots, Candidates(last, last, pick(nodes, slots), is_open.gather(1, slots))


def _below(limit: Tensor, generator: torch.Generator) -> Tensor:
    """Draw from U{0..limit-1}, int64 like ``limit``."""
    draw = torch.rand(limit.shape, generator=generator, device=limit.device)
    return torch.minimum((draw * limit).long(), limit - 1)


def _routes_in_random_order(batch: LabelledBatch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return :func:`nco.models.labelled.label_sequence` of a CVRP with its routes in random order."""
    sequence, route = label_sequence(batch, generator)
    count = sequence.shape[1]
    order = torch.rand(route.shape, generator=generator, device=route.device).argsort(dim=1).gather(1, route)
    order = (order * count + torch.arange(count, device=route.device)).argsort(dim=1)
    return sequence.gather(1, order), route.gather(1, order)
