"""What the environments share: states, positions, and the moves that only touch links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from nco.envs import linked, picture
from nco.errors import InfeasibleSolution
from nco.instance import Instance, InstanceBatch

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class State:
    """Partial solutions of a batch. Moves return new states; an old one stays valid.

    Attributes
    ----------
    batch : InstanceBatch
        B instances of N nodes.
    succ, pred : int64 [B, T]
        The next and the previous token on the token's cycle; a token on no tour is a self loop. Tokens 0..N-1 are the
        nodes, and T = N in a TSP.
    visited : bool [B, N]
        Nodes that are on a tour; the depot of a CVRP always is.
    last : int64 [B]
        The node last appended or inserted, 0 after a CVRP's return to the depot. If it is removed, the nearest node
        before it that stays takes its place.
    """

    batch: InstanceBatch
    succ: Tensor
    pred: Tensor
    visited: Tensor
    last: Tensor


class Positions(NamedTuple):
    """The places of insertion; each is known by the token on its left, so P = T.

    Attributes
    ----------
    left, right : int64 [B, P]
        The nodes on both sides; every copy of a depot is node 0.
    residual : int64 [B, P] or None
        Free capacity of the position's route; None in a TSP. Without meaning where ``valid`` is False.
    valid : bool [B, P]
        Whether a tour passes the position, or it is the one that opens a new route.
    """

    left: Tensor
    right: Tensor
    residual: Tensor | None
    valid: Tensor


S = TypeVar("S", bound=State)


class Env(ABC, Generic[S]):
    """Rules of a problem as functions on states; the environment itself holds no state.

    Every move is O(B N) in time and memory and runs on the batch's device.

    Parameters
    ----------
    validate : bool
        Refuse illegal moves and tours with an error. False skips these checks in a hot loop whose moves come from the
        masks; an illegal move then corrupts the state that it returns.
    """

    problem: str

    def __init__(self, validate: bool = True):
        self.validate = validate

    @abstractmethod
    def reset(self, batch: InstanceBatch, start: Tensor | None = None) -> S:
        """Return the first state of a batch, with ``start`` (int64 [B]) as the first visited node."""

    @abstractmethod
    def from_tours(self, batch: InstanceBatch, tours: Tensor) -> S:
        """Return the state that complete or partial giant tours (int64 [B, L]) describe.

        Raises
        ------
        InfeasibleSolution
            If a tour breaks a rule other than that it visits all nodes.
        """

    @abstractmethod
    def append_mask(self, state: S) -> Tensor:
        """Return the nodes that may be appended, bool [B, N]; a row is never all False."""

    @abstractmethod
    def _extend(self, state: S, node: Tensor) -> S:
        """Carry out a legal append move."""

    @abstractmethod
    def _append_fault(self, state: S, row: int, node: int) -> str:
        """Say why a node of ``row`` may not be appended."""

    @abstractmethod
    def positions(self, state: S) -> Positions:
        """Return the places of insertion."""

    @abstractmethod
    def tours(self, state: S) -> Tensor:
        """Return the state's giant tours, int64 [B, T]."""

    @abstractmethod
    def check(self, batch: InstanceBatch, tours: Tensor, complete: bool = True) -> None:
        """Judge giant tours (int64 [B, L]).

        Parameters
        ----------
        complete : bool
            Whether every node must be visited.

        Raises
        ------
        InfeasibleSolution
            Naming the row, the node and the rule that is broken.
        """

    def append(self, state: S, node: Tensor) -> S:
        """Append one node (int64 [B]) in every row: at the end of the tour, or of a CVRP's active route.

        Raises
        ------
        ValueError
            If ``append_mask`` forbids a node; the message names the row.
        """
        if self.validate:
            check_indices("node", node[:, None], state.visited, lowest=0)
            legal = at(self.append_mask(state), node)
            require(legal, lambda row: self._append_fault(state, row, int(node[row])))
        return self._extend(state, node)

    def insert_mask(self, state: S, node: Tensor) -> Tensor:
        """Return the positions where a node (int64 [B]) may be inserted, bool [B, P].

        A row is all False if its node is visited, or -1.
        """
        return self._insert_mask(state, node, self.positions(state))

    def insert(self, state: S, node: Tensor, position: Tensor) -> S:
        """Insert one node in every row behind the left token of a position.

        Parameters
        ----------
        node : int64 [B]
            -1 leaves the row as it is.
        position : int64 [B]
            Column of ``positions``.

        Raises
        ------
        ValueError
            If ``insert_mask`` forbids a move; the message names the row.
        """
        if self.validate:
            self._check_insert(state, node, position)
        return self._link(state, position, node, node >= 0)

    def remove(self, state: S, nodes: Tensor) -> S:
        """Take nodes out of the tours; what stays keeps its order.

        Parameters
        ----------
        nodes : int64 [B, K]
            Visited nodes; -1 pads, and a node given twice is removed once.

        Raises
        ------
        ValueError
            If a node is not visited, is the depot, or is a TSP's only one; the message names the row.
        """
        if self.validate:
            self._check_remove(state, nodes)
        num_rows, num_nodes = state.visited.shape
        chosen = mark(nodes, num_nodes)
        removed = torch.nn.functional.pad(chosen, (0, state.succ.shape[1] - num_nodes))
        succ, pred = flatten(state.succ), flatten(state.pred)
        before = pred.clone()
        linked.skip(before, removed.flatten())
        linked.unlink(succ, pred, removed.flatten())
        stand_in = at(unflatten(before, num_rows), state.last)
        stand_in = torch.where(stand_in < num_nodes, stand_in, 0)
        return replace(
            state,
            succ=unflatten(succ, num_rows),
            pred=unflatten(pred, num_rows),
            visited=state.visited & ~chosen,
            last=torch.where(at(chosen, state.last), stand_in, state.last),
        )

    def done(self, state: S) -> Tensor:
        """Return whether all nodes are visited, bool [B]."""
        return state.visited.all(dim=1)

    def cost(self, batch: InstanceBatch, tours: Tensor) -> Tensor:
        """Return the length of giant tours (int64 [B, L]) in the batch's scaled coordinates, float32 [B].

        Partial tours are closed over the nodes that they visit.
        """
        tours = torch.where(tours < 0, tours[:, :1], tours)
        points = batch.coords.gather(1, tours[..., None].expand(-1, -1, 2))
        return (points - points.roll(-1, dims=1)).norm(dim=-1).sum(dim=1)

    def render(
        self, problem: InstanceBatch | Instance, tour: Tensor, row: int = 0, ax: Axes | None = None, title: str = ""
    ) -> Axes:
        """Draw one giant tour; see :func:`nco.envs.picture.draw_tour`."""
        return picture.draw_tour(problem, tour, row, ax, title)

    def _insert_mask(self, state: S, node: Tensor, positions: Positions) -> Tensor:
        known = node.clamp(min=0)
        free = (node >= 0) & ~at(state.visited, known)
        mask = positions.valid & free[:, None]
        if positions.residual is not None and state.batch.demand is not None:
            mask &= at(state.batch.demand, known)[:, None] <= positions.residual
        return mask

    def _link(self, state: S, left: Tensor, node: Tensor, moving: Tensor) -> S:
        """Link a node behind a left token in the rows that move (bool [B])."""
        num_rows, num_tokens = state.succ.shape
        rows = moving.nonzero().squeeze(1)
        succ, pred, visited = flatten(state.succ), flatten(state.pred), state.visited.clone()
        linked.insert_after(succ, pred, rows * num_tokens + left[rows], rows * num_tokens + node[rows])
        visited[rows, node[rows]] = True
        return replace(
            state,
            succ=unflatten(succ, num_rows),
            pred=unflatten(pred, num_rows),
            visited=visited,
            last=torch.where(moving, node, state.last),
        )

    def _check_batch(self, batch: InstanceBatch) -> None:
        if batch.problem != self.problem:
            raise ValueError(f"{type(self).__name__} was given a batch of the problem {batch.problem!r}")

    def _check_insert(self, state: S, node: Tensor, position: Tensor) -> None:
        check_indices("node", node[:, None], state.visited, lowest=-1)
        check_indices("position", position[:, None], state.succ, lowest=0)
        positions = self.positions(state)

        def explain(row: int) -> str:
            which, place = int(node[row]), int(position[row])
            if state.visited[row, which]:
                return f"node {which} is visited already"
            if not positions.valid[row, place]:
                return f"node {which} cannot be inserted at position {place}, which is on no tour"
            return f"node {which} does not fit into the route of position {place}"

        require(at(self._insert_mask(state, node, positions), position) | (node < 0), explain)

    def _check_remove(self, state: S, nodes: Tensor) -> None:
        check_indices("nodes", nodes, state.visited, lowest=-1)
        absent = (nodes >= 0) & ~state.visited.gather(1, nodes.clamp(min=0))
        require(
            ~absent.any(dim=1),
            lambda row: f"node {int(nodes[row][absent[row]][0])} is not visited, so it cannot be removed",
        )


def at(matrix: Tensor, index: Tensor) -> Tensor:
    """Return one entry of every row: ``matrix`` [B, M] at ``index`` int64 [B]."""
    return matrix.gather(1, index[:, None]).squeeze(1)


def mark(nodes: Tensor, num_nodes: int) -> Tensor:
    """Return the nodes of each row (int64 [B, K], -1 pads) as a mask, bool [B, N]."""
    mask = torch.zeros(len(nodes), num_nodes + 1, dtype=torch.bool, device=nodes.device)
    return mask.scatter_(1, torch.where(nodes < 0, num_nodes, nodes), True)[:, :num_nodes]


def flatten(pointer: Tensor) -> Tensor:
    """Copy row-wise links [B, T] into the flat token space of :mod:`nco.envs.linked`, [B * T]."""
    num_rows, num_tokens = pointer.shape
    offset = torch.arange(num_rows, device=pointer.device) * num_tokens
    return (pointer + offset[:, None]).flatten()


def unflatten(pointer: Tensor, num_rows: int) -> Tensor:
    """Undo :func:`flatten`."""
    return pointer.view(num_rows, -1) % (len(pointer) // num_rows)


def check_indices(name: str, indices: Tensor, columns: Tensor, lowest: int) -> None:
    """Require int64 [B, K] with entries from ``lowest`` on that index the columns of [B, M]."""
    num_rows, bound = columns.shape
    if indices.dtype != torch.int64 or indices.ndim != 2 or len(indices) != num_rows:
        raise ValueError(f"{name} must be int64 with {num_rows} rows, not {indices.dtype} {list(indices.shape)}")
    inside = (indices >= lowest) & (indices < bound)
    require(
        inside.all(dim=1),
        lambda row: f"{name} {int(indices[row][~inside[row]][0])} is outside {lowest}..{bound - 1}",
    )


def require(legal: Tensor, explain: Callable[[int], str]) -> None:
    """Raise a ValueError that names the first row that is not legal (bool [B]) and explains it."""
    if not legal.all():
        row = int((~legal).int().argmax())
        raise ValueError(f"row {row}: {explain(row)}")


def reject(wrong: Tensor, explain: Callable[[int, int], str]) -> None:
    """Raise InfeasibleSolution for the first (row, column) that is wrong (bool [B, M]), explained."""
    if wrong.any():
        row, column = divmod(int(wrong.int().argmax()), wrong.shape[1])
        raise InfeasibleSolution(f"row {row}: {explain(row, column)}")


def check_visits(batch: InstanceBatch, tours: Tensor, complete: bool, lowest: int) -> None:
    """Require a giant tour's shape, entries from ``lowest`` on, and each node at most, or exactly, once.

    The depot of a CVRP may come any number of times.
    """
    num_rows, num_nodes = len(batch), batch.num_nodes
    if tours.dtype != torch.int64 or tours.ndim != 2 or tours.shape[0] != num_rows or tours.shape[1] < 1:
        raise ValueError(f"tours must be int64 [{num_rows}, L], not {tours.dtype} {list(tours.shape)}")
    reject((tours < lowest) | (tours >= num_nodes), lambda row, i: f"{int(tours[row, i])} at place {i} is no node")
    visits = torch.zeros(num_rows, num_nodes, dtype=torch.int64, device=tours.device)
    visits.scatter_add_(1, tours.clamp(min=0), (tours >= 0).long())
    if batch.problem == "cvrp":
        visits[:, 0] = 1
    reject(visits > 1, lambda row, node: f"node {node} is visited {int(visits[row, node])} times")
    if complete:
        reject(visits == 0, lambda row, node: f"node {node} is not visited")
