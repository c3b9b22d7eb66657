"""The window of an insertion decision: the positions and the open nodes near the node that is to be inserted.

Positions are named by their two ends. The distance of a position is the smaller of the distances of its ends to the
current node; ties go to the lower position, so that the same state gives the same window on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

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

    def map(self, function: Callable[[Tensor], Tensor]) -> Window:
        """Return the window with a function applied to each of its tensors."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return replace(self, **{name: function(value) for name, value in values.items() if value is not None})

    def __getitem__(self, rows: Tensor | slice) -> Window:
        """Return some rows."""
        return self.map(lambda tensor: tensor[rows])

    def __len__(self) -> int:
        return self.current.shape[0]


def nearest_slots(distance: Tensor, k: int) -> Tensor:
    """Return the indices of the k smallest entries of each row, ascending, ties to the lower index.

    Parameters
    ----------
    distance : float32 [R, S]
        Not negative; infinite where there is nothing.

    Returns
    -------
    int64 [R, min(k, S)]
    """
    count = distance.shape[1]
    # The bits of non-negative floats are ordered as the floats are; with the index below them no two keys are equal.
    key = distance.view(torch.int32).long() * 2**32 + torch.arange(count, device=distance.device)
    return key.topk(min(k, count), dim=1, largest=False).indices


def pick(nodes: Tensor, slots: Tensor) -> Tensor:
    """Return nodes [R, S, F] at slots [R, k] of each row, [R, k, F]."""
    return nodes.gather(1, slots[..., None].expand(-1, -1, nodes.shape[2]))


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
    """Places of insertion of each row, a CVRP's new route not among them.

    Attributes
    ----------
    left, right : float [R, C, F]
        The ends.
    valid : bool [R, C]
    left_is_depot, right_is_depot : bool [R, C] or None
        CVRP only.
    spare : int64 [R, C] or None
        CVRP only: capacity left on the position's route.
    """

    left: Tensor
    right: Tensor
    valid: Tensor
    left_is_depot: Tensor | None = None
    right_is_depot: Tensor | None = None
    spare: Tensor | None = None


@dataclass(frozen=True)
class Vehicle:
    """What a CVRP's decision needs besides places.

    Attributes
    ----------
    depot : float [R, F]
    demand : int64 [R]
        Of the current node.
    capacity : int64 [R]
    """

    depot: Tensor
    demand: Tensor
    capacity: Tensor


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
    current: Tensor,
    positions: Positions,
    open_nodes: Tensor,
    open_mask: Tensor,
    vehicle: Vehicle | None = None,
) -> tuple[Window, Tensor]:
    """Cut the window out of each row's decision.

    Parameters
    ----------
    rule : WindowRule
    current : float [R, F]
        The node that each row inserts.
    positions : Positions
        C places of each row.
    open_nodes, open_mask : float [R, M, F], bool [R, M]
        The other open nodes.
    vehicle : Vehicle, optional
        CVRP only.

    Returns
    -------
    Window
        Of min(k, C) positions, and one more for the new route of a CVRP.
    int64 [R, P]
        The kept positions as indices into the C given ones; C stands for the new route.
    """
    place = current[:, None, :2]
    to_left = (positions.left[..., :2] - place).norm(dim=-1)
    to_right = (positions.right[..., :2] - place).norm(dim=-1)
    valid = positions.valid
    if vehicle is not None:
        assert positions.left_is_depot is not None and positions.right_is_depot is not None
        assert positions.spare is not None
        if not rule.depot_is_near:
            to_left = to_left.masked_fill(positions.left_is_depot, torch.inf)
            to_right = to_right.masked_fill(positions.right_is_depot, torch.inf)
        if not rule.show_full:
            valid = valid & (positions.spare >= vehicle.demand[:, None])
    slots = nearest_slots(torch.minimum(to_left, to_right).masked_fill(~valid, torch.inf), rule.positions)
    left, right, mask = pick(positions.left, slots), pick(positions.right, slots), valid.gather(1, slots)

    if rule.order == "polar":
        assert vehicle is not None
        centre = vehicle.depot[:, None, :2]
        rank = polar_difference(open_nodes[..., :2] - centre, place - centre)
    else:
        rank = (open_nodes[..., :2] - place).norm(dim=-1)
    kept = nearest_slots(rank.masked_fill(~open_mask, torch.inf), rule.unvisited)
    unvisited, unvisited_mask = pick(open_nodes, kept), open_mask.gather(1, kept)

    allowed, remaining = mask, None
    if vehicle is not None:
        assert positions.spare is not None
        capacity = vehicle.capacity[:, None]
        spare = torch.cat([positions.spare.gather(1, slots), capacity], dim=1)
        left, right = (torch.cat([ends, vehicle.depot[:, None]], dim=1) for ends in (left, right))
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        allowed = mask & (spare >= vehicle.demand[:, None])
        remaining = spare / capacity
        slots = torch.cat([slots, torch.full_like(slots[:, :1], positions.valid.shape[1])], dim=1)
    return Window(current, unvisited, unvisited_mask, left, right, mask, allowed, remaining), slots
