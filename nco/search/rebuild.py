"""Greedy insertion of open nodes, many rows side by side, at the positions that a scorer likes best."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nco.search.partial import PartialSolutions
from nco.search.regions import Regions
from nco.search.window import Positions, Vehicle, Window, WindowRule, polar_difference, take_window

# From the windows of R rows to scores of their positions, float [R, P]; minus infinity forbids.
Scorer = Callable[[Window], Tensor]


class Rebuild:
    """Inserts the removed nodes of every region, one per step and region.

    Each region's next node is the open one closest to its last inserted one (see :attr:`WindowRule.order`). Regions
    come sorted by the size of their holes, so those still at work are always the first rows.

    The rebuild works on copies of the regions' links; :meth:`commit` writes them back.

    Parameters
    ----------
    partial : PartialSolutions
        The regions' nodes ``removed`` are off the tours.
    regions : Regions
    rule : WindowRule
    spare : int64 [R, M] or None
        CVRP: the capacity that a region may still use on the route of each of its members.
    """

    def __init__(self, partial: PartialSolutions, regions: Regions, rule: WindowRule, spare: Tensor | None = None):
        members = regions.members
        self.partial = partial
        self.regions = regions
        self.rule = rule
        self.spare = spare
        self.is_open = regions.removed != partial.pad
        self.open_nodes = partial.nodes[regions.removed]
        self.nodes = partial.nodes[members]
        self.succ, self.route = partial.succ[members], partial.route[members]
        self.after = partial.nodes[self.succ]
        self.valid = partial.placed[members]
        self.rows = torch.arange(len(members), device=members.device)
        # Where each removed node stands among its region's members.
        place = torch.zeros_like(partial.succ)
        place[members] = torch.arange(members.shape[1], device=members.device).expand_as(members)
        self.slot = place[regions.removed]
        if partial.is_cvrp:
            assert partial.batch.capacity is not None
            self.is_depot = partial.is_depot[members]
            self.after_is_depot = partial.is_depot[self.succ]
            self.valid = self.valid | (self.is_depot & (self.succ != members))
            self.demand = partial.demand[regions.removed]
            self.depot = partial.nodes[partial.depot[regions.instance]]
            self.capacity = partial.batch.capacity[regions.instance]

    def run(self, scorer: Scorer, last: Tensor) -> Tensor:
        """Insert everything.

        Parameters
        ----------
        scorer : Scorer
        last : int64 [R]
            The token after which each region's order starts.

        Returns
        -------
        bool [R]
            False where some node fitted nowhere and stays off the tours.
        """
        complete = torch.ones_like(self.rows, dtype=torch.bool)
        last_place = self.partial.nodes[last, :2]
        steps = torch.arange(self.is_open.shape[1], device=last.device)
        for active in (self.regions.sizes[:, None] > steps).sum(dim=0).tolist():
            rows = self.rows[:active]
            choice = self._next(last_place[:active])
            self.is_open[rows, choice] = False
            current = self.open_nodes[rows, choice]
            window, slots = self._decision(current, choice)
            best, position = scorer(window).max(dim=1)
            fits = best > -torch.inf
            complete[:active] &= fits
            self._insert(choice, slots[rows, position], fits)
            last_place = current[:, :2]
        return complete

    def commit(self, kept: Tensor) -> None:
        """Write the links of some regions, bool [R], back into the partial solutions."""
        members = self.regions.members[kept].flatten()
        self.partial.set_links(members, self.succ[kept].flatten(), self.route[kept].flatten())

    def _next(self, last: Tensor) -> Tensor:
        """Return which of each row's open nodes comes next, int64 [active]."""
        active = len(last)
        places, origin = self.open_nodes[:active, :, :2], last[:, None]
        if self.rule.order == "polar":
            centre = self.depot[:active, None, :2]
            distance = polar_difference(places - centre, origin - centre)
        else:
            distance = (places - origin).norm(dim=-1)
        return distance.masked_fill(~self.is_open[:active], torch.inf).argmin(dim=1)

    def _decision(self, current: Tensor, choice: Tensor) -> tuple[Window, Tensor]:
        active = len(current)
        nodes, after, valid = self.nodes[:active], self.after[:active], self.valid[:active]
        open_nodes, is_open = self.open_nodes[:active], self.is_open[:active]
        if self.spare is None:
            return take_window(self.rule, current, Positions(nodes, after, valid), open_nodes, is_open)
        positions = Positions(
            nodes, after, valid, self.is_depot[:active], self.after_is_depot[:active], self.spare[:active]
        )
        demand = self.demand[self.rows[:active], choice]
        vehicle = Vehicle(self.depot[:active], demand, self.capacity[:active])
        window, slots = take_window(self.rule, current, positions, open_nodes, is_open, vehicle)
        # Without an empty route left, no new one can be opened.
        window.allowed[:, -1] &= (self.is_depot[:active] & ~valid).any(dim=1)
        return window, slots

    def _insert(self, choice: Tensor, left: Tensor, fits: Tensor) -> None:
        """Link each row's current node behind the member in slot ``left``, where it fits."""
        active = len(choice)
        if self.spare is not None:
            empty = (self.is_depot[:active] & ~self.valid[:active]).int().argmax(dim=1)
            left = torch.where(left == self.nodes.shape[1], empty, left)
        rows = self.rows[:active]
        if not bool(fits.all()):
            rows, choice, left = rows[fits], choice[fits], left[fits]
        slot = self.slot[rows, choice]
        self.succ[rows, slot] = self.succ[rows, left]
        self.after[rows, slot] = self.after[rows, left]
        self.succ[rows, left] = self.regions.removed[rows, choice]
        self.after[rows, left] = self.open_nodes[rows, choice]
        self.valid[rows, slot] = True
        if self.spare is None:
            return
        self.valid[rows, left] = True
        self.after_is_depot[rows, slot] = self.after_is_depot[rows, left]
        self.after_is_depot[rows, left] = False
        route = self.route[rows, left]
        self.route[rows, slot] = route
        room = self.spare[rows, left] - self.demand[rows, choice]
        self.spare[rows] = torch.where(self.route[rows] == route[:, None], room[:, None], self.spare[rows])
