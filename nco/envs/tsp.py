"""The travelling salesman problem as an environment."""

from __future__ import annotations

import torch
from torch import Tensor

from nco.envs import linked
from nco.envs.base import Env, Positions, State, at, check_indices, check_visits, flatten, mark, reject, require
from nco.instance import InstanceBatch


class TSPEnv(Env[State]):
    """Append, insert and remove moves on one cycle per row.

    A partial tour is a closed cycle over its visited nodes. "Its end" is the node ``state.last``: append moves link
    behind it, and giant tours are written so that they end with it. Partial giant tours are padded with -1.
    """

    problem = "tsp"

    def reset(self, batch: InstanceBatch, start: Tensor | None = None) -> State:
        """Return tours that visit one node each.

        Parameters
        ----------
        batch : InstanceBatch
        start : int64 [B], optional
            The first node; 0 by default.

        Raises
        ------
        ValueError
            If the batch is no TSP or a start is no node.
        """
        self._check_batch(batch)
        links = torch.arange(batch.num_nodes, device=batch.device).repeat(len(batch), 1)
        if start is None:
            start = links[:, 0]
        if self.validate:
            check_indices("start", start[:, None], links, lowest=0)
        return State(batch, links, links, mark(start[:, None], batch.num_nodes), start)

    def from_tours(self, batch: InstanceBatch, tours: Tensor) -> State:
        """Return the state of giant tours, int64 [B, L], of which partial ones are padded with -1.

        Raises
        ------
        InfeasibleSolution
            If a tour visits no node, visits one twice, or has padding before its end.
        """
        self._check_batch(batch)
        if self.validate:
            self.check(batch, tours, complete=False)
        num_rows, num_nodes = len(batch), batch.num_nodes
        length = (tours >= 0).sum(dim=1)
        following = tours.roll(-1, dims=1).scatter(1, length[:, None] - 1, tours[:, :1])
        rows, places = (tours >= 0).nonzero(as_tuple=True)
        succ = torch.arange(num_nodes, device=batch.device).repeat(num_rows, 1)
        pred = succ.clone()
        succ[rows, tours[rows, places]] = following[rows, places]
        pred[rows, following[rows, places]] = tours[rows, places]
        return State(batch, succ, pred, mark(tours, num_nodes), at(tours, length - 1))

    def append_mask(self, state: State) -> Tensor:
        """Return the unvisited nodes, bool [B, N].

        A finished row waits for the others: it may append its last node again, which changes nothing.
        """
        waiting = self.done(state)[:, None] & mark(state.last[:, None], state.batch.num_nodes)
        return ~state.visited | waiting

    def _extend(self, state: State, node: Tensor) -> State:
        return self._link(state, state.last, node, ~self.done(state))

    def _append_fault(self, state: State, row: int, node: int) -> str:
        return f"node {node} is visited already"

    def positions(self, state: State) -> Positions:
        """Return the edges of the cycles as places of insertion, named by the visited node on their left."""
        nodes = torch.arange(state.succ.shape[1], device=state.succ.device)
        return Positions(nodes.expand_as(state.succ), state.succ, None, state.visited)

    def tours(self, state: State) -> Tensor:
        """Return permutations that end with ``state.last``, int64 [B, N]; -1 pads a partial tour."""
        first = at(state.succ, state.last)
        is_first = mark(first[:, None], state.batch.num_nodes)
        rank = linked.cycle_ranks(flatten(state.pred), is_first.flatten())[0].view_as(state.succ)
        rows, nodes = state.visited.nonzero(as_tuple=True)
        tours = torch.full_like(state.succ, -1)
        tours[rows, rank[rows, nodes]] = nodes
        return tours

    def check(self, batch: InstanceBatch, tours: Tensor, complete: bool = True) -> None:
        """Judge giant tours: each node exactly once (at most once unless ``complete``), padding only at the end.

        Raises
        ------
        InfeasibleSolution
            Naming the row, the node and the rule that is broken.
        """
        self._check_batch(batch)
        check_visits(batch, tours, complete, lowest=0 if complete else -1)
        reject(tours[:, :1] < 0, lambda row, _: "the tour visits no node")
        resumed = (tours[:, 1:] >= 0) & (tours[:, :-1] < 0)
        reject(resumed, lambda row, i: f"node {int(tours[row, i + 1])} follows padding")

    def _check_remove(self, state: State, nodes: Tensor) -> None:
        super()._check_remove(state, nodes)
        kept = state.visited & ~mark(nodes, state.batch.num_nodes)
        require(kept.any(dim=1), lambda row: "the tour would lose its last node")
