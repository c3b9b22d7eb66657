"""Partial solutions with known best insertions, sampled from labelled tours: the training states of L2C-Insert.

All states of a pool are drawn in tensors and are independent of one another, unlike the released training, which walks
through each solution step by step. Two samplers share one form: every node has a *time*, 0 where it is there from the
start, and a state is the moment t: nodes with a smaller time are in the partial solution, the node with time t is
current, the rest is open.

- ``chain`` (the paper's): start from one node and always continue with the node next to the last one.
- ``hole``: a complete solution out of which the nodes nearest to a random centre were taken, partly put back in
  chain order. This is what local reconstruction meets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nco.models.labelled import LabelledBatch, label_sequence
from nco.search.window import Positions, Vehicle, Window, WindowRule, polar_difference, take_window


@dataclass(frozen=True)
class TrainingStates:
    """Windows and the positions of them that the label solution would take.

    Attributes
    ----------
    window : Window
    target : bool [R, P]
        More than one position where two are the same place, as the two sides of a single customer; none where the
        window does not show the label's position.
    """

    window: Window
    target: Tensor

    def __len__(self) -> int:
        return len(self.window)

    def __getitem__(self, rows: Tensor | slice) -> TrainingStates:
        """Return some rows."""
        return TrainingStates(self.window[rows], self.target[rows])


@dataclass(frozen=True)
class StateSampler:
    """Draws training states from labelled instances.

    Attributes
    ----------
    rule : WindowRule
        The window, as at inference.
    hole_share : float
        Share of instances that get a hole; the rest get a chain.
    hole_sizes : (int, int)
        Smallest and largest hole, drawn uniformly; at most the nodes there are but one.
    chain_order : {"nearest", "polar"}
        What "next to the last node" means in chains; holes always continue with the nearest node.
    """

    rule: WindowRule = WindowRule()
    hole_share: float = 0.5
    hole_sizes: tuple[int, int] = (4, 50)
    chain_order: str = "nearest"

    def sample(self, batch: LabelledBatch, per_instance: int, generator: torch.Generator) -> TrainingStates:
        """Return ``per_instance`` states of every instance, [B * per_instance, ...], instance by instance."""
        sequence, route = label_sequence(batch, generator)
        times, last_time = self._times(batch, generator)
        rows = len(times)
        times, sequence, route = (tensor.repeat_interleave(per_instance, dim=0) for tensor in (times, sequence, route))
        last_time = last_time.repeat_interleave(per_instance)
        # A chain's first insertions are forced or a toss between two directions; a hole has none such.
        first_time = torch.where((times == 0).sum(1) < 3, 3 - int(batch.demand is not None), 1)
        draw = torch.rand(len(times), generator=generator, device=times.device)
        moment = first_time + (draw * (last_time - first_time + 1)).long()
        first_node = torch.arange(rows, device=times.device).repeat_interleave(per_instance) * batch.coords.shape[1]
        return self._states(batch, times, moment.clamp(max=last_time), sequence, route, first_node)

    def _times(self, batch: LabelledBatch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the time of every customer [B, n] and the last time of every row [B]."""
        is_cvrp = batch.demand is not None
        places = batch.coords[:, int(is_cvrp) :]
        rows, customers = places.shape[:2]
        device = places.device

        def below(limit: int | Tensor) -> Tensor:
            return (torch.rand(rows, generator=generator, device=device) * limit).long()

        distance = torch.cdist(places, places)
        row = torch.arange(rows, device=device)
        has_hole = torch.rand(rows, generator=generator, device=device) < self.hole_share
        low, high = (min(size, customers - 1) for size in self.hole_sizes)
        size = low + below(high - low + 1)
        nearness = distance[row, below(customers)].argsort(dim=1).argsort(dim=1)
        in_hole = nearness < size[:, None]
        # A hole is entered at the node nearest to some node that stayed.
        outside = (~in_hole).float() * torch.rand(rows, customers, generator=generator, device=device)
        last = torch.where(has_hole, outside.argmax(dim=1), below(customers))
        open_nodes = torch.where(has_hole[:, None], in_hole, torch.ones_like(in_hole))
        open_nodes[row, last] = False
        closeness = distance
        if self.chain_order == "polar":
            vectors = places - batch.coords[:, :1]
            angles = polar_difference(vectors[:, :, None], vectors[:, None])
            closeness = torch.where(has_hole[:, None, None], distance, angles)
        return chain_times(closeness, open_nodes, last), open_nodes.sum(dim=1)

    def _states(
        self, batch: LabelledBatch, times: Tensor, moment: Tensor, sequence: Tensor, route: Tensor, first_node: Tensor
    ) -> TrainingStates:
        is_cvrp = batch.demand is not None
        ordered = times.gather(1, sequence)
        visited = ordered < moment[:, None]
        rank = (ordered == moment[:, None]).int().argmax(dim=1)
        before, after = visited_neighbours(visited, cyclic=not is_cvrp)
        first_customer = first_node + int(is_cvrp)
        node = sequence + first_customer[:, None]
        current = node.gather(1, rank[:, None]).squeeze(1)
        is_open = ordered > moment[:, None]
        vehicle = None
        nodes = batch.coords
        if is_cvrp:
            assert batch.demand is not None and batch.capacity is not None
            nodes = torch.cat([nodes, (batch.demand / batch.capacity[:, None])[..., None].float()], dim=-1)
            capacity = batch.capacity[first_node // nodes.shape[1]]
            places, label = _route_places(visited, before, after, rank, node, route, first_node)
            demand = batch.demand.flatten()
            load = torch.zeros_like(route).scatter_add_(1, route, torch.where(visited, demand[node], 0))
            spare = (capacity[:, None] - load.gather(1, route)).repeat(1, 2)
        else:
            places, label = Places(node, node.gather(1, after), visited), before.gather(1, rank[:, None])
        nodes = nodes.flatten(0, 1)
        positions = Positions(nodes[places.left], nodes[places.right], places.valid)
        if is_cvrp:
            depot = first_node[:, None]
            positions = replace(
                positions, left_is_depot=places.left == depot, right_is_depot=places.right == depot, spare=spare
            )
            vehicle = Vehicle(nodes[first_node], demand[current], capacity)
        window, slots = take_window(self.rule, nodes[current], positions, nodes[node], is_open, vehicle)
        return TrainingStates(window, same_places(places, slots, label) & window.allowed)


@dataclass(frozen=True)
class Places:
    """Places of insertion by the ids of their ends, int64 [R, C], and which of them there are, bool [R, C]."""

    left: Tensor
    right: Tensor
    valid: Tensor


def chain_times(closeness: Tensor, open_nodes: Tensor, last: Tensor) -> Tensor:
    """Number open nodes in the order in which each is the closest to the one before.

    Parameters
    ----------
    closeness : float [B, n, n]
        Smaller is closer.
    open_nodes : bool [B, n]
    last : int64 [B]
        Where each chain starts; not itself numbered.

    Returns
    -------
    int64 [B, n]
        From 1 on; 0 where a node is not open.
    """
    times = torch.zeros_like(open_nodes, dtype=torch.long)
    open_nodes = open_nodes.clone()
    row = torch.arange(len(last), device=last.device)
    for step in range(1, int(open_nodes.sum(dim=1).max()) + 1):
        is_active = open_nodes.any(dim=1)
        closest = closeness[row, last].masked_fill(~open_nodes, torch.inf).argmin(dim=1)
        last = torch.where(is_active, closest, last)
        times[row, last] = torch.where(is_active, step, times[row, last])
        open_nodes[row, last] = False
    return times


def visited_neighbours(visited: Tensor, cyclic: bool) -> tuple[Tensor, Tensor]:
    """Return for each place of a sequence the nearest visited places before and after it, itself excluded.

    Parameters
    ----------
    visited : bool [R, n]
    cyclic : bool
        Whether the sequence wraps around. Otherwise a missing neighbour is the place itself.

    Returns
    -------
    int64 [R, n], int64 [R, n]
    """
    count = visited.shape[1]
    place = torch.arange(count, device=visited.device).expand_as(visited)
    upto = torch.where(visited, place, -1).cummax(dim=1).values
    onward = torch.where(visited, place, count).flip(1).cummin(dim=1).values.flip(1)
    before = torch.cat([upto.new_full((len(visited), 1), -1), upto[:, :-1]], dim=1)
    after = torch.cat([onward[:, 1:], onward.new_full((len(visited), 1), count)], dim=1)
    if cyclic:
        return (
            torch.where(before < 0, upto[:, -1:], before),
            torch.where(after >= count, onward[:, :1], after),
        )
    return torch.where(before < 0, place, before), torch.where(after >= count, place, after)


def _route_places(
    visited: Tensor, before: Tensor, after: Tensor, rank: Tensor, node: Tensor, route: Tensor, depot: Tensor
) -> tuple[Places, Tensor]:
    """Return a CVRP's places, and the label's among them [R, 1].

    The first n lie behind each customer of the sequence, the next n before it, where it is the first of its route; 2n
    stands for the new route.
    """
    count = visited.shape[1]
    place = torch.arange(count, device=visited.device)
    has_after = (after != place) & (route.gather(1, after) == route)
    has_before = (before != place) & (route.gather(1, before) == route)
    at_depot = depot[:, None].expand_as(node)
    left = torch.cat([node, at_depot], dim=1)
    right = torch.cat([torch.where(has_after, node.gather(1, after), at_depot), node], dim=1)
    valid = torch.cat([visited, visited & ~has_before], dim=1)
    of_current = (tensor.gather(1, rank[:, None]) for tensor in (before, after, has_before, has_after))
    before, after, has_before, has_after = of_current
    label = torch.where(has_before, before, torch.where(has_after, count + after, 2 * count))
    return Places(left, right, valid), label


def same_places(places: Places, slots: Tensor, label: Tensor) -> Tensor:
    """Return which kept positions are the label's, bool [R, P].

    Two positions with the same two ends are one place: the two sides of a route of one customer, or of a tour of two
    nodes. A slot or label beyond the given positions is the new route.
    """
    count = places.left.shape[1]
    inner, inner_label = slots.clamp(max=count - 1), label.clamp(max=count - 1)
    ends = torch.stack([places.left.gather(1, inner), places.right.gather(1, inner)])
    wanted = torch.stack([places.left.gather(1, inner_label), places.right.gather(1, inner_label)])
    low, high = ends.amin(dim=0), ends.amax(dim=0)
    is_same = (low == wanted.amin(dim=0)) & (high == wanted.amax(dim=0))
    return torch.where((slots == count) | (label == count), slots == label, is_same)
