"""Partial solutions of many instances in one flat space of tokens, changed in place at many spots at once.

The environments (:mod:`nco.envs`) return a new state for every move of every instance. A search that rebuilds hundreds
of regions, several of them in one instance, works on these flat arrays instead and hands complete tours back to the
environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nco.envs import CVRPEnv, CVRPState, State, TSPEnv
from nco.envs.linked import unlink
from nco.instance import Instance, InstanceBatch
from nco.search.lengths import InstanceLengths


class PartialSolutions:
    """Linked tours of B instances of one size; token t of instance b has the id b * T + t.

    One more token at the end belongs to nothing: it pads lists of tokens.

    Attributes
    ----------
    batch : InstanceBatch
    tokens : int
        T: N for a TSP; 2N - 1 for a CVRP, with a depot token for every route (see :class:`nco.envs.cvrp.CVRPState`).
    nodes : float32 [B * T + 1, F]
        x, y and, for a CVRP, demand over capacity.
    depot : int64 [B]
        The first depot token of each instance.
    node : int64 [B * T + 1]
        The token itself, or the first depot token where it is a copy of the depot.
    is_depot : bool [B * T + 1]
    demand : int64 [B * T + 1]
    succ, pred, route : int64 [B * T + 1]
        Neighbours on the tour, and the depot token of the token's route.
    placed : bool [B * T + 1]
        Which nodes are on a tour; never the depot.
    """

    def __init__(self, batch: InstanceBatch, tours: Tensor | None = None):
        self.batch = batch
        self.is_cvrp = batch.problem == "cvrp"
        rows, num_nodes, device = len(batch), batch.num_nodes, batch.device
        self.tokens = 2 * num_nodes - 1 if self.is_cvrp else num_nodes
        self.size = rows * self.tokens
        self.pad = self.size
        token = torch.arange(self.tokens, device=device)
        node = torch.where(token < num_nodes, token, 0)
        first = torch.arange(rows, device=device) * self.tokens
        self.depot = first
        self.node = self._flat(node, first)
        self.is_depot = torch.zeros(self.size + 1, dtype=torch.bool, device=device)
        self.demand = torch.zeros(self.size + 1, dtype=torch.long, device=device)
        columns = [batch.coords]
        if self.is_cvrp:
            assert batch.demand is not None and batch.capacity is not None
            self.is_depot[:-1] = ((token == 0) | (token >= num_nodes)).repeat(rows)
            self.demand[:-1] = batch.demand[:, node].flatten()
            columns.append((batch.demand / batch.capacity[:, None])[..., None].float())
        nodes = torch.cat(columns, dim=-1)[:, node].flatten(0, 1)
        self.nodes = torch.cat([nodes, torch.zeros_like(nodes[:1])])
        env = CVRPEnv(validate=False) if self.is_cvrp else TSPEnv(validate=False)
        state: State = env.reset(batch) if tours is None else env.from_tours(batch, tours)
        self.succ, self.pred = self._flat(state.succ, first), self._flat(state.pred, first)
        self.route = self._flat(state.route, first) if isinstance(state, CVRPState) else self.succ.clone()
        visited = torch.zeros(rows, self.tokens, dtype=torch.bool, device=device)
        visited[:, :num_nodes] = state.visited
        self.placed = torch.cat([visited.flatten(), visited.new_zeros(1)]) & ~self.is_depot

    def _flat(self, tokens: Tensor, first: Tensor) -> Tensor:
        """Turn token numbers [T] or [B, T] into ids, with the padding token at the end."""
        ids = (tokens + first[:, None]).flatten()
        return torch.cat([ids, torch.full_like(ids[:1], self.pad)])

    def remove(self, tokens: Tensor) -> None:
        """Take tokens off their tours; the padding token may be among them."""
        removed = torch.zeros(self.size + 1, dtype=torch.bool, device=tokens.device)
        removed[tokens] = True
        removed[self.pad] = False
        unlink(self.succ, self.pred, removed)
        self.route[tokens] = tokens
        self.placed[tokens] = False

    def set_links(self, tokens: Tensor, succ: Tensor, route: Tensor) -> None:
        """Set the successors and routes of tokens [K]; the padding token may be among them."""
        self.succ[tokens] = succ
        self.pred[succ] = tokens
        self.route[tokens] = route
        self.placed[tokens] = (tokens != self.pad) & ~self.is_depot[tokens]

    def copy_best(self, best: Tensor) -> None:
        """Give all replicas of an instance the tours of one of them.

        Parameters
        ----------
        best : int64 [B / R]
            Which of each R rows in succession, from 0 on.
        """
        groups = len(best)
        group = torch.arange(groups, device=best.device)
        first = self.depot.view(groups, -1, 1)
        for links in (self.succ, self.pred, self.route):
            rows = links[:-1].view(groups, -1, self.tokens)
            rows.copy_((rows - first)[group, best][:, None] + first)

    def instance_of(self, tokens: Tensor) -> Tensor:
        """Return the instance of each token; the padding token gets the last one's."""
        return torch.div(tokens, self.tokens, rounding_mode="floor").clamp(max=len(self.batch) - 1)

    def slack(self) -> Tensor:
        """Return the capacity left on the route of each token, int64 [B * T + 1]."""
        assert self.batch.capacity is not None
        load = torch.zeros_like(self.demand).index_add_(0, self.route, self.demand)
        capacity = self.batch.capacity.repeat_interleave(self.tokens)
        return torch.cat([capacity, capacity.new_zeros(1)]) - load[self.route]

    def tours(self) -> Tensor:
        """Return giant tours, int64 [B, L]."""
        first = self.depot[:, None]

        def tokens(ids: Tensor) -> Tensor:
            return ids[:-1].view(len(self.batch), self.tokens) - first

        visited = self.placed[:-1].view(len(self.batch), self.tokens)[:, : self.batch.num_nodes]
        succ, pred = tokens(self.succ), tokens(self.pred)
        if not self.is_cvrp:
            env = TSPEnv(validate=False)
            return env.tours(replace(env.reset(self.batch), succ=succ, pred=pred, visited=visited))
        routes = CVRPEnv(validate=False)
        state = replace(routes.reset(self.batch), succ=succ, pred=pred, visited=visited, route=tokens(self.route))
        return routes.tours(state)


class EdgeLengths:
    """Lengths of edges between flat tokens, in each instance's own metric and units: what a search accepts by.

    Parameters
    ----------
    instances : sequence of Instance
        In the order of the batch.
    partial : PartialSolutions
    """

    def __init__(self, instances: Sequence[Instance], partial: PartialSolutions):
        self.partial = partial
        self.lengths = InstanceLengths(instances)

    def __call__(self, tail: Tensor, head: Tensor) -> Tensor:
        """Return lengths, float64, of any shape; an edge of the padding token is 0 long."""
        tokens = self.partial.tokens
        real = ((tail != self.partial.pad) & (head != self.partial.pad)).cpu().numpy()
        tails, heads = (self.partial.node[end].cpu().numpy()[real] for end in (tail, head))
        lengths = np.zeros(real.shape)
        lengths[real] = self.lengths(tails // tokens, tails % tokens, heads % tokens)
        return torch.from_numpy(lengths).to(tail.device)
