"""The capacitated vehicle routing problem as an environment."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from nco.envs import linked
from nco.envs.base import Env, Positions, State, at, check_visits, flatten, mark, reject, require
from nco.errors import InfeasibleInstance
from nco.instance import InstanceBatch


@dataclass(frozen=True, eq=False)
class CVRPState(State):
    """Routes as cycles, each through a depot token of its own.

    Token 0 is the first depot token and tokens N..2N-2 are its copies: one for every customer's own route and one to
    spare, so T = 2N - 1. A depot token that is a self loop is an empty route.

    Attributes
    ----------
    route : int64 [B, T]
        The depot token of the token's route. Without meaning for customers on no route.
    load : int64 [B, T]
        At depot tokens the demand on their route, 0 elsewhere.
    active : int64 [B]
        The depot token of the route that append moves extend.
    """

    route: Tensor
    load: Tensor
    active: Tensor

    @property
    def demand(self) -> Tensor:
        """Demand, int64 [B, N]."""
        return demand_and_capacity(self.batch)[0]

    @property
    def capacity(self) -> Tensor:
        """Capacity, int64 [B]."""
        return demand_and_capacity(self.batch)[1]

    @property
    def residual(self) -> Tensor:
        """Free capacity of the active route, int64 [B]."""
        return self.capacity - at(self.load, self.active)


class CVRPEnv(Env[CVRPState]):
    """Append, insert and remove moves on routes with a capacity per row.

    Appending a customer puts it at the end of the active route; appending node 0 closes that route and opens a new
    one. At most one empty route is on offer, the first free depot token: append moves start there, and it is the one
    valid "new route" position. Giant tours list the routes in the order of their depot tokens.
    """

    problem = "cvrp"

    def reset(self, batch: InstanceBatch, start: Tensor | None = None) -> CVRPState:
        """Return states without routes.

        Parameters
        ----------
        batch : InstanceBatch
        start : int64 [B], optional
            The first customer, appended at once.

        Raises
        ------
        ValueError
            If the batch is no CVRP or a start is no customer.
        InfeasibleInstance
            If a demand is negative or above its row's capacity, or the depot has one.
        """
        self._check_batch(batch)
        if self.validate:
            check_demand(batch)
        num_rows, num_nodes = len(batch), batch.num_nodes
        links = torch.arange(2 * num_nodes - 1, device=batch.device).repeat(num_rows, 1)
        depot = torch.zeros(num_rows, dtype=torch.int64, device=batch.device)
        visited = mark(depot[:, None], num_nodes)
        state = CVRPState(batch, links, links, visited, depot, links, torch.zeros_like(links), depot)
        return state if start is None else self.append(state, start)

    def from_tours(self, batch: InstanceBatch, tours: Tensor) -> CVRPState:
        """Return the state of giant tours, int64 [B, L], with all their routes closed.

        Raises
        ------
        InfeasibleSolution
            If a tour does not start at the depot, visits a customer twice, or overloads a route.
        InfeasibleInstance
            As :meth:`reset`.
        """
        state = self.reset(batch)
        if self.validate:
            self.check(batch, tours, complete=False)
        before, after = tours.roll(1, dims=1), pad(tours, (0, 1))[:, 1:]
        opens = (tours > 0) & (before == 0)
        depot = batch.num_nodes - 2 + opens.cumsum(dim=1)
        depot = torch.where(depot < batch.num_nodes, 0, depot)
        before, after = torch.where(before > 0, before, depot), torch.where(after > 0, after, depot)

        rows, places = (tours > 0).nonzero(as_tuple=True)
        customer, before, after, depot = (entry[rows, places] for entry in (tours, before, after, depot))
        succ, pred, route, load = (entry.clone() for entry in (state.succ, state.pred, state.route, state.load))
        succ[rows, customer] = after
        pred[rows, after] = customer
        pred[rows, customer] = before
        succ[rows, before] = customer
        route[rows, customer] = depot
        load.index_put_((rows, depot), state.demand[rows, customer], accumulate=True)
        visited = state.visited | mark(tours, batch.num_nodes)
        state = replace(state, succ=succ, pred=pred, visited=visited, route=route, load=load)
        return replace(state, active=first_free(state))

    def append_mask(self, state: CVRPState) -> Tensor:
        """Return the unvisited customers that fit into the active route, and the depot where it may be closed.

        Node 0 is forbidden while the active route is empty. A finished row may always choose it: it closes the last
        route, and then waits for the other rows. So a rollout of n customers ends within 2 n moves.
        """
        mask = ~state.visited & (state.demand <= state.residual[:, None])
        mask[:, 0] = (at(state.succ, state.active) != state.active) | self.done(state)
        return mask

    def _extend(self, state: CVRPState, node: Tensor) -> CVRPState:
        state = self._link(state, at(state.pred, state.active), node, node > 0)
        closing = node == 0
        return replace(
            state,
            active=torch.where(closing, first_free(state), state.active),
            last=torch.where(closing, 0, state.last),
        )

    def _append_fault(self, state: CVRPState, row: int, node: int) -> str:
        if node == 0:
            return "node 0 cannot close a route without customers"
        if state.visited[row, node]:
            return f"node {node} is visited already"
        demand, residual = int(state.demand[row, node]), int(state.residual[row])
        return f"node {node} has the demand {demand}, above the residual capacity {residual}"

    def positions(self, state: CVRPState) -> Positions:
        """Return the edges of all routes as places of insertion, and the one that opens a new route.

        Position p lies behind token p: behind customer p for p < N, else behind a depot token at the head of a route.
        """
        num_nodes = state.batch.num_nodes
        tokens = torch.arange(state.succ.shape[1], device=state.succ.device).expand_as(state.succ)
        return Positions(
            left=torch.where(tokens < num_nodes, tokens, 0),
            right=torch.where(state.succ < num_nodes, state.succ, 0),
            residual=state.capacity[:, None] - state.load.gather(1, state.route),
            valid=(state.succ != tokens) | (tokens == first_free(state)[:, None]),
        )

    def remove(self, state: CVRPState, nodes: Tensor) -> CVRPState:
        """Take customers out of the routes; what stays keeps its order, and emptied routes vanish.

        Parameters
        ----------
        nodes : int64 [B, K]
            Visited customers; -1 pads, and a customer given twice is removed once.

        Raises
        ------
        ValueError
            If one of them is the depot or is not visited; the message names the row.
        """
        num_nodes = state.batch.num_nodes
        after = super().remove(state, nodes)
        gone = state.visited & ~after.visited
        load = state.load.scatter_add(1, state.route[:, :num_nodes], -state.demand * gone)
        emptied = at(after.succ, state.active) == state.active
        active = torch.where(emptied, first_free(after), state.active)
        return replace(after, load=load, active=active)

    def tours(self, state: CVRPState) -> Tensor:
        """Return giant tours, int64 [B, 2N - 1]: routes in the order of their depot tokens, zeros at the end."""
        num_nodes = state.batch.num_nodes
        is_depot = depot_tokens(state).expand_as(state.succ)
        rank = linked.cycle_ranks(flatten(state.pred), is_depot.flatten())[0].view_as(state.succ)
        placed = rank[:, :num_nodes] > 0
        visits = torch.zeros_like(state.load).scatter_add_(1, state.route[:, :num_nodes], placed.long())
        # Each route takes its visits and the zero before them.
        width = visits + (visits > 0)
        begin = width.cumsum(dim=1) - width
        rows, customer = placed.nonzero(as_tuple=True)
        tours = torch.zeros_like(state.succ)
        tours[rows, begin[rows, state.route[rows, customer]] + rank[rows, customer]] = customer
        return tours

    def check(self, batch: InstanceBatch, tours: Tensor, complete: bool = True) -> None:
        """Judge giant tours: a start at the depot, each customer exactly once (at most once unless ``complete``).

        Loads are compared with the capacity in integers.

        Raises
        ------
        InfeasibleSolution
            Naming the row, the node and the rule that is broken.
        """
        self._check_batch(batch)
        demand, capacity = demand_and_capacity(batch)
        check_visits(batch, tours, complete, lowest=0)
        reject(tours[:, :1] != 0, lambda row, _: f"the tour starts with node {int(tours[row, 0])}, not with the depot")
        total = demand.gather(1, tours).cumsum(dim=1)
        load = total - torch.where(tours == 0, total, 0).cummax(dim=1).values
        reject(
            load > capacity[:, None],
            lambda row, i: (
                f"node {int(tours[row, i])} brings its route to a load of {int(load[row, i])}, "
                f"above the capacity {int(capacity[row])}"
            ),
        )

    def _link(self, state: CVRPState, left: Tensor, node: Tensor, moving: Tensor) -> CVRPState:
        rows = moving.nonzero().squeeze(1)
        customer, depot = node[rows], state.route[rows, left[rows]]
        route, load = state.route.clone(), state.load.clone()
        route[rows, customer] = depot
        load[rows, depot] += state.demand[rows, customer]
        return replace(super()._link(state, left, node, moving), route=route, load=load)

    def _check_remove(self, state: CVRPState, nodes: Tensor) -> None:
        super()._check_remove(state, nodes)
        require((nodes != 0).all(dim=1), lambda row: "node 0 is the depot and cannot be removed")


def demand_and_capacity(batch: InstanceBatch) -> tuple[Tensor, Tensor]:
    """Return the demand, int64 [B, N], and the capacity, int64 [B], of a CVRP batch."""
    assert batch.demand is not None
    assert batch.capacity is not None
    return batch.demand, batch.capacity


def depot_tokens(state: CVRPState) -> Tensor:
    """Return which tokens stand for the depot, bool [T]."""
    tokens = torch.arange(state.succ.shape[1], device=state.succ.device)
    return (tokens == 0) | (tokens >= state.batch.num_nodes)


def first_free(state: CVRPState) -> Tensor:
    """Return the first depot token without a route, int64 [B]; the spare one makes sure that there is one."""
    tokens = torch.arange(state.succ.shape[1], device=state.succ.device)
    return (depot_tokens(state) & (state.succ == tokens)).int().argmax(dim=1)


def check_demand(batch: InstanceBatch) -> None:
    """Require demands that routes can carry.

    Raises
    ------
    InfeasibleInstance
        If a demand is negative or above its row's capacity, or the depot has one.
    """
    demand, capacity = demand_and_capacity(batch)
    wrong = (demand < 0) | (demand > capacity[:, None])
    wrong[:, 0] = demand[:, 0] != 0
    if wrong.any():
        row, node = divmod(int(wrong.int().argmax()), batch.num_nodes)
        allowed = "0 at the depot" if node == 0 else f"0..{int(capacity[row])}"
        raise InfeasibleInstance(
            f"row {row}: node {node} has the demand {int(demand[row, node])}, allowed is {allowed}"
        )
