"""Projection maps: where a network is shown the nodes of one decision.

A network trained on small instances decides badly where a decision's nodes fill but a corner of the unit square. A map
moves the nodes of every decision, each row on its own, to where the network knows its way. Only coordinates change:
demands, capacities and the lengths of tours do not.

A map is a function ``map(points, mask)`` of the nodes of R decisions:

points : float [R, S, 2]
    Slot 0 is the node where the path must end (a CVRP's depot), the last slot is the last node of the path, and those
    between are the candidates.
mask : bool [R, S]
    False for slots that hold nothing.

It returns where the nodes are shown, float [R, S, 2]; what it returns for empty slots is seen by nothing.

The published maps are those of TTPL (arXiv 2506.02392, section 4 and appendix), in the form that the released program
computes; ``seed`` is INViT's (Fang et al., ICML 2024), clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

ProjectionMap = Callable[[Tensor, Tensor], Tensor]

# How far outside of the unit square bearing_box shows a destination: a last node on the edge still sees where it lies.
MARGIN = 0.1


def identity(points: Tensor, mask: Tensor) -> Tensor:
    """Show the nodes where they are."""
    return points


# The box maps put the box around the candidates and the last node, whose longer side is r, onto the unit square.


def seed(points: Tensor, mask: Tensor) -> Tensor:
    """Return clip((s - m) / r), with the box's lower corner m: INViT's map, where TTPL's search starts."""
    low, _, side = box(points, mask)
    return ((points - low) / side).clamp(0.0, 1.0)


def tsp1k(points: Tensor, mask: Tensor) -> Tensor:
    """Return clip((M - s) / r), with the upper corner M: the seed mirrored."""
    _, high, side = box(points, mask)
    return ((high - points) / side).clamp(0.0, 1.0)


def tsp5k(points: Tensor, mask: Tensor) -> Tensor:
    """Return clip(tanh(s - m) / r)."""
    low, _, side = box(points, mask)
    return ((points - low).tanh() / side).clamp(0.0, 1.0)


def tsp10k(points: Tensor, mask: Tensor) -> Tensor:
    """Return clip((s - (m + M) / 2) / r + 1/2): the seed, centred along the shorter side."""
    return centred_box(points, mask).clamp(0.0, 1.0)


# The depot maps move nodes along their bearings from the depot d: v = s - d, rho = |v|.


def cvrp1k(points: Tensor, mask: Tensor) -> Tensor:
    """Return d + v / max rho, the depot's own rho taken for 1: nothing moves unless a node is farther than 1."""
    depot, offset, farthest = _from_depot(points, mask)
    return depot + offset / farthest.clamp(min=1.0)


def cvrp5k(points: Tensor, mask: Tensor) -> Tensor:
    """Return d + v / sqrt(max rho)."""
    depot, offset, farthest = _from_depot(points, mask)
    return depot + offset / _positive(farthest.sqrt())


def cvrp10k(points: Tensor, mask: Tensor) -> Tensor:
    """Return d + (exp(rho) - 1) / max(exp(rho) - 1) * v / (rho + 1e-6)."""
    depot, offset, farthest = _from_depot(points, mask)
    distance = offset.norm(dim=-1, keepdim=True)
    return depot + distance.expm1() / _positive(farthest.expm1()) * offset / (distance + 1e-6)


# Maps beyond the paper.


def bearing_box(points: Tensor, mask: Tensor) -> Tensor:
    """Show the box as ``tsp10k``, and a distant destination a little outside of the square, in its true direction.

    A clip coordinate by coordinate, as the published maps have it, shows it in another direction from the last node.
    """
    shown = centred_box(points, mask)
    return _stop_at(shown, shown[:, -1:], MARGIN)


def rotated_box(points: Tensor, mask: Tensor) -> Tensor:
    """``bearing_box`` along the principal axes of the candidates and the last node."""
    inside = mask[:, 1:, None].to(points.dtype)
    mean = (points[:, 1:] * inside).sum(dim=1, keepdim=True) / inside.sum(dim=1, keepdim=True)
    offset = points - mean
    x, y = (offset[:, 1:] * inside).unbind(-1)
    angle = 0.5 * torch.atan2(2 * (x * y).sum(dim=1), (x * x - y * y).sum(dim=1))
    cosine, sine = angle.cos()[:, None], angle.sin()[:, None]
    x, y = offset.unbind(-1)
    return bearing_box(torch.stack([cosine * x + sine * y, cosine * y - sine * x], dim=-1), mask)


def depot_box(points: Tensor, mask: Tensor, power: float = 1.0) -> Tensor:
    """Put the box around all nodes, slot 0 among them, onto the unit square, distances from slot 0 raised to a power.

    Bearings from the depot stay. With the power 1 shapes do too; below 1 the candidates move away from a distant depot
    into a smaller part of the square, above 1 they fill more of it.
    """
    _, offset, farthest = _from_depot(points, mask)
    offset = offset / _positive(farthest)
    if power != 1.0:
        # Away from zero, where a negative power has no bound.
        offset = offset * offset.norm(dim=-1, keepdim=True).clamp(min=1e-6) ** (power - 1.0)
    low, high, side = box(offset, mask, first=0)
    return (offset - (low + high) / 2) / side + 0.5


def zoom(points: Tensor, mask: Tensor) -> Tensor:
    """Put the last node at the centre and the farthest candidate at the distance 1/2.

    Slot 0 keeps its bearing; its distance q > 1, in units of the farthest candidate's, is shown as 2 - 1 / q.
    """
    last = points[:, -1:]
    offset = points - last
    distance = offset.norm(dim=-1, keepdim=True)
    unit = _positive(distance[:, 1:].masked_fill(~mask[:, 1:, None], 0.0).amax(dim=1, keepdim=True))
    distance = (distance / unit).clamp(min=1.0)
    return 0.5 + 0.5 * offset / unit * (2.0 - 1.0 / distance) / distance


MAPS: dict[str, ProjectionMap] = {
    "none": identity,
    "seed": seed,
    "tsp1k": tsp1k,
    "tsp5k": tsp5k,
    "tsp10k": tsp10k,
    "cvrp1k": cvrp1k,
    "cvrp5k": cvrp5k,
    "cvrp10k": cvrp10k,
    "bearing-box": bearing_box,
    "rotated-box": rotated_box,
    "depot-box": depot_box,
    "depot-box-sqrt": partial(depot_box, power=0.5),
    "depot-box-square": partial(depot_box, power=2.0),
    "zoom": zoom,
}


def box(points: Tensor, mask: Tensor, first: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Return the corners [R, 1, 2] of the box around the slots from ``first`` on, and its longer side [R, 1, 1].

    A side of zero counts as 1.
    """
    points, empty = points[:, first:], ~mask[:, first:, None]
    low = points.masked_fill(empty, torch.inf).amin(dim=1, keepdim=True)
    high = points.masked_fill(empty, -torch.inf).amax(dim=1, keepdim=True)
    return low, high, _positive((high - low).amax(dim=-1, keepdim=True))


def centred_box(points: Tensor, mask: Tensor) -> Tensor:
    """Put the box around the candidates and the last node into the middle of the unit square; nothing is clipped."""
    low, high, side = box(points, mask)
    return (points - (low + high) / 2) / side + 0.5


def _from_depot(points: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the depot [R, 1, 2], the offsets from it [R, S, 2] and the longest of them [R, 1, 1]."""
    depot = points[:, :1]
    offset = points - depot
    distance = offset.norm(dim=-1, keepdim=True).masked_fill(~mask[..., None], 0.0)
    return depot, offset, distance.amax(dim=1, keepdim=True)


def _positive(scale: Tensor) -> Tensor:
    """Return a scale, 1 where it is zero."""
    return torch.where(scale > 0, scale, 1.0)


def _stop_at(points: Tensor, origin: Tensor, margin: float) -> Tensor:
    """Return where the ways from an origin in the unit square end if they stop at a margin around the square."""
    way = points - origin
    room = margin + torch.where(way > 0, 1.0 - origin, origin)
    share = torch.where(way.abs() > room, room / way.abs(), 1.0).amin(dim=-1, keepdim=True)
    return origin + share * way
