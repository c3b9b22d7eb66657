"""Log-probabilities of the moves of given trajectories along a heat, all at once and with gradients.

Construction itself is without gradients. Which nodes a move could have chosen follows from when each node is visited,
and from the load of the open route: both are known beforehand, so no move has to wait for the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nco.instance import InstanceBatch
from nco.search.heat import BACKGROUND, SparseHeat

# Neighbours of all moves that are looked at together; more are split, and computed again for the gradients.
MOST_TERMS = 20_000_000


def real_moves(nodes: Tensor, problem: str) -> Tensor:
    """Return which of the moves between the nodes of giant tours are no padding, bool [..., L - 1]."""
    if problem == "tsp":
        return torch.ones_like(nodes[..., 1:], dtype=torch.bool)
    return (nodes[..., 1:] != 0) | (nodes[..., :-1] != 0)


def move_log_probs(
    batch: InstanceBatch,
    heat: SparseHeat,
    nodes: Tensor,
    inverse_temperature: float = 1.0,
    most_terms: int = MOST_TERMS,
) -> Tensor:
    """Return the log-probabilities of the moves of trajectories, as sampled construction would have drawn them.

    A move from u to an allowed v has the weight ``(heat_uv + 1e-10) ** inverse_temperature``, where the heat of what is
    no edge is 0, and the probability of its share in the weights of all allowed moves. Allowed are open nodes; of a
    CVRP open customers that the route has room for, and from a customer the depot.

    Parameters
    ----------
    batch : InstanceBatch
        B instances.
    heat : SparseHeat
        Of the same instances; gradients flow to it.
    nodes : int64 [B, h, L]
        Giant tours; of a CVRP padded with zeros.
    inverse_temperature : float
    most_terms : int
        Bounds the memory.

    Returns
    -------
    float [B, h, L - 1]
        Zero for padding.
    """
    rows, count, length = nodes.shape
    weights = _MoveWeights(batch, heat, inverse_temperature)
    paths = nodes.flatten(0, 1)
    row_of = torch.arange(rows, device=nodes.device).repeat_interleave(count)
    block = max(1, most_terms // (length * heat.neighbours.shape[2]))
    if block >= len(paths):
        return weights.log_probs(paths, row_of).view(rows, count, -1)
    found = [
        checkpoint(weights.log_probs, paths[begin : begin + block], row_of[begin : begin + block], use_reentrant=False)
        for begin in range(0, len(paths), block)
    ]
    return torch.cat(found).view(rows, count, -1)


@dataclass(frozen=True)
class _Replay:
    """What is known of M moves.

    Attributes
    ----------
    row, path, step : int64 [M]
        Of the instance, of the trajectory and of the move in it.
    tail, head : int64 [M]
    """

    row: Tensor
    path: Tensor
    step: Tensor
    tail: Tensor
    head: Tensor


class _MoveWeights:
    def __init__(self, batch: InstanceBatch, heat: SparseHeat, inverse_temperature: float):
        def power(values: Tensor) -> Tensor:
            values = values + BACKGROUND
            return values if inverse_temperature == 1.0 else values**inverse_temperature

        self.batch = batch
        self.problem = batch.problem
        self.background = BACKGROUND**inverse_temperature
        self.neighbours = heat.neighbours.flatten(0, 1)
        self.near = power(heat.heat).flatten(0, 1)
        self.from_depot = None if heat.from_depot is None else power(heat.from_depot)
        self.to_depot = None if heat.to_depot is None else power(heat.to_depot)

    def log_probs(self, paths: Tensor, row_of: Tensor) -> Tensor:
        """Return float [P, L - 1] of trajectories int64 [P, L] of instances [P]."""
        size = self.batch.num_nodes
        steps = torch.arange(paths.shape[1], device=paths.device)
        # The depot has no time of its own, and what is written for it is not read.
        visit = torch.zeros(len(paths), size, dtype=torch.int64, device=paths.device)
        visit.scatter_(1, paths, steps.expand_as(paths))
        is_real = real_moves(paths, self.problem)
        at_depot = (paths[:, :-1] == 0) & (self.problem == "cvrp")
        found = torch.zeros(is_real.shape, dtype=self.near.dtype, device=paths.device)
        room, allowed = self._room(paths, row_of) if self.problem == "cvrp" else (None, size - 1 - steps)
        inner = _moves(is_real & ~at_depot, paths, row_of)
        allowed = allowed.expand_as(paths)[inner.path, inner.step]
        place = (inner.path, inner.step)
        found = found.index_put(place, self._from_nodes(inner, visit, None if room is None else room[place], allowed))
        if self.from_depot is not None:
            outer = _moves(is_real & at_depot, paths, row_of)
            found = found.index_put((outer.path, outer.step), self._from_depot(outer, visit))
        return found

    def _room(self, paths: Tensor, row_of: Tensor) -> tuple[Tensor, Tensor]:
        """Return the room left behind each node, and how many open customers fit into it: int64 [P, L] each."""
        demand, capacity = self.batch.demand, self.batch.capacity
        assert demand is not None and capacity is not None
        load = demand[row_of].gather(1, paths).cumsum(dim=1)
        before = torch.where(paths == 0, load, 0).cummax(dim=1).values
        room = capacity[row_of, None] - (load - before)
        # Open customers are counted by their demand, which has few values.
        values, kind = demand.unique(return_inverse=True)
        fitting = torch.zeros_like(room)
        is_customer = paths != 0
        for number, value in enumerate(values.tolist()):
            is_kind = kind == number
            is_kind[:, 0] = False
            visited = (is_kind[row_of].gather(1, paths) & is_customer).cumsum(dim=1)
            fitting += torch.where(room >= value, is_kind.sum(dim=1)[row_of, None] - visited, 0)
        return room, fitting

    def _from_nodes(self, moves: _Replay, visit: Tensor, room: Tensor | None, allowed: Tensor) -> Tensor:
        """Return float [M] of moves from cities or customers; ``allowed`` [M] is how many nodes may be chosen."""
        flat = moves.row * self.batch.num_nodes + moves.tail
        near = self.neighbours.index_select(0, flat)
        is_open = visit[moves.path[:, None], near] > moves.step[:, None]
        if room is not None:
            assert self.batch.demand is not None
            is_open &= self.batch.demand[moves.row[:, None], near] <= room[:, None]
        weights = self.near.index_select(0, flat)
        strangers = (allowed - is_open.sum(dim=1)).to(weights.dtype)
        total = (weights * is_open).sum(dim=1) + self.background * strangers
        is_head = near == moves.head[:, None]
        chosen = torch.where(is_head.any(dim=1), (weights * is_head).sum(dim=1), self.background)
        if self.to_depot is not None:
            home = self.to_depot[moves.row, moves.tail]
            total = total + home
            chosen = torch.where(moves.head == 0, home, chosen)
        return chosen.log() - total.log()

    def _from_depot(self, moves: _Replay, visit: Tensor) -> Tensor:
        """Return float [M] of moves that leave the depot: any open customer may follow."""
        assert self.from_depot is not None
        weights = self.from_depot.index_select(0, moves.row)[:, 1:]
        is_open = visit[moves.path, 1:] > moves.step[:, None]
        chosen = weights.gather(1, moves.head[:, None] - 1).squeeze(1)
        return chosen.log() - (weights * is_open).sum(dim=1).log()


def _moves(which: Tensor, paths: Tensor, row_of: Tensor) -> _Replay:
    path, step = which.nonzero(as_tuple=True)
    return _Replay(row_of[path], path, step, paths[path, step], paths[path, step + 1])
