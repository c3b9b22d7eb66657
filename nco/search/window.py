"""The window of an insertion decision: the positions and the open nodes near the node that is to be inserted.

Positions are named by their two ends. The distance of a position is the smaller of the distances of its ends to the
current node; ties go to the lower position, so that the same state gives the same window on every device.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Window:
    """One insertion decision per row, as a scorer sees it.

    A node is described by F numbers: x, y, and for a CVRP its demand over the capacity.

    Attributes
    ----------
    current : float [R, F]
        The node to insert.
    unvisited : float [R, U, F]
        Other open nodes, nearest first.
    unvisited_mask : bool [R, U]
        False where a row has fewer of them.
    left, right : float [R, P, F]
        The ends of each position. A CVRP's last position is the new route: both its ends are the depot.
    position_mask : bool [R, P]
        False where a row has fewer positions: such a slot is seen by nothing.
    allowed : bool [R, P]
        Where the current node may go: real positions with enough capacity left.
    remaining : float [R, P] or None
        CVRP: remaining capacity of the position's route, over the capacity.
    """

    current: Tensor
    unvisited: Tensor
    unvisited_mask: Tensor
    left: Tensor
    right: Tensor
    position_mask: Tensor
    allowed: Tensor
    remaining: Tensor | None = None

    def map(self, function) -> Window:  # type: ignore[no-untyped-def]
        """Return the window with a function applied to each of its tensors."""
        values = (getattr(self, entry.name) for entry in fields(self))
        return Window(*(None if value is None else function(value) for value in values))

    def __getitem__(self, rows: Tensor | slice) -> Window:
        """Return some rows."""
        return self.map(lambda tensor: tensor[rows])

    def __len__(self) -> int:
        return self.current.shape[0]


def nearest_slots(distance: Tensor, k: int) -> Tensor:
    """Return the indices of the k smallest entries of each row, ascending, ties to the lower index.

    Parameters
    ----------
    distance : float [R, S]
        Infinite where there is nothing.

    Returns
    -------
    int64 [R, min(k, S)]
    """
    return torch.sort(distance, dim=-1, stable=True).indices[:, :k]


def insertion_cost(window: Window) -> Tensor:
    """Return what each insertion adds to the length, float [R, P], in the units of the window."""
    current = window.current[:, None, :2]
    left, right = window.left[..., :2], window.right[..., :2]
    return (current - left).norm(dim=-1) + (current - right).norm(dim=-1) - (left - right).norm(dim=-1)


def cheapest_insertion(window: Window) -> Tensor:
    """Score positions by their insertion cost alone: the control that stands in for a network.

    Returns
    -------
    float [R, P]
        Minus the cost, and minus infinity where the node may not go.
    """
    return torch.where(window.allowed, -insertion_cost(window), -torch.inf)


@dataclass(frozen=True)
class Positions:
    """Places of insertion of each row, as ids into a flat list of nodes.

    Attributes
    ----------
    left, right : int64 [R, C]
        The ends; a depot end is the depot's id.
    valid : bool [R, C]
    spare : int64 [R, C] or None
        CVRP: capacity left on the position's route.
    """

    left: Tensor
    right: Tensor
    valid: Tensor
    spare: Tensor | None = None


@dataclass(frozen=True)
class WindowRule:
    """Which positions and open nodes a scorer gets to see.

    Attributes
    ----------
    positions : int
        Number of positions kept (k), besides the new route of a CVRP.
    unvisited : int
        Number of other open nodes kept.
    order : {"nearest", "polar"}
        How open nodes are ranked: by distance, or by the difference of polar angles about the depot, wrapped.
    depot_is_near : bool
        Whether the depot's distance counts for a position that ends there. Counting it, as released, crowds out the
        other positions of every node near the depot.
    show_full : bool
        Whether positions on routes without room for the current node are shown, as released, or leave their slots to
        others.
    """

    positions: int = 16
    unvisited: int = 8
    order: str = "nearest"
    depot_is_near: bool = False
    show_full: bool = False


def polar_difference(vectors: Tensor, reference: Tensor) -> Tensor:
    """Return the angle between vectors [..., 2] and reference vectors, wrapped into [0, pi]."""
    difference = torch.atan2(vectors[..., 1], vectors[..., 0]) - torch.atan2(reference[..., 1], reference[..., 0])
    return torch.atan2(difference.sin(), difference.cos()).abs()


def take_window(
    rule: WindowRule,
    nodes: Tensor,
    current: Tensor,
    positions: Positions,
    open_nodes: Tensor,
    open_mask: Tensor,
    depot: Tensor | None = None,
    demand: Tensor | None = None,
    capacity: Tensor | None = None,
) -> tuple[Window, Tensor]:
    """Cut the window out of each row's decision.

    Parameters
    ----------
    rule : WindowRule
    nodes : float [T, F]
        All nodes of all rows in one flat list.
    current : int64 [R]
        The node that each row inserts.
    positions : Positions
        C places of each row; a CVRP's new route is not among them.
    open_nodes, open_mask : int64 [R, M], bool [R, M]
        The other open nodes.
    depot, demand, capacity : int64 [R], [T], [R], optional
        CVRP only: depot ids, demands of all nodes, capacities.

    Returns
    -------
    Window
        Of min(k, C) positions, and one more for the new route of a CVRP.
    int64 [R, P]
        The kept positions as indices into the C given ones; C stands for the new route.
    """
    rows, count = positions.left.shape
    place = nodes[current, None, :2]
    distance_left = (nodes[positions.left, :2] - place).norm(dim=-1)
    distance_right = (nodes[positions.right, :2] - place).norm(dim=-1)
    if depot is not None and not rule.depot_is_near:
        distance_left = distance_left.masked_fill(positions.left == depot[:, None], torch.inf)
        distance_right = distance_right.masked_fill(positions.right == depot[:, None], torch.inf)
    valid = positions.valid
    if positions.spare is not None and not rule.show_full:
        assert demand is not None
        valid = valid & (positions.spare >= demand[current, None])
    slots = nearest_slots(torch.minimum(distance_left, distance_right).masked_fill(~valid, torch.inf), rule.positions)
    left, right = positions.left.gather(1, slots), positions.right.gather(1, slots)
    mask = valid.gather(1, slots)

    offsets = nodes[open_nodes, :2]
    if rule.order == "polar":
        assert depot is not None
        centre = nodes[depot, None, :2]
        rank = polar_difference(offsets - centre, place - centre)
    else:
        rank = (offsets - place).norm(dim=-1)
    kept = nearest_slots(rank.masked_fill(~open_mask, torch.inf), rule.unvisited)
    unvisited_mask = open_mask.gather(1, kept)
    unvisited = nodes[open_nodes.gather(1, kept)]

    allowed, remaining = mask, None
    if depot is not None:
        assert demand is not None and capacity is not None and positions.spare is not None
        spare = torch.cat([positions.spare.gather(1, slots), capacity[:, None]], dim=1)
        left, right = (torch.cat([ends, depot[:, None]], dim=1) for ends in (left, right))
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        allowed = mask & (spare >= demand[current, None])
        remaining = spare / capacity[:, None]
        slots = torch.cat([slots, torch.full_like(slots[:, :1], count)], dim=1)
    window = Window(nodes[current], unvisited, unvisited_mask, nodes[left], nodes[right], mask, allowed, remaining)
    return window, slots
