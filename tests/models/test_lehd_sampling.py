"""Sampled segments: what is open, where they end, and which moves the label would make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from nco.errors import UsageError
from nco.models.labelled import LabelledBatch
from nco.models.lehd.sampling import SegmentSampler, TrainingStates

TOUR = [3, 0, 7, 1, 9, 4, 2, 8, 6, 5]
ROUTES = [[4, 1, 7], [2], [3, 9, 5, 8], [6, 10]]
DEMAND = [0, 3, 9, 2, 4, 1, 5, 3, 1, 4, 2]
CAPACITY = 10


def tsp() -> LabelledBatch:
    """Return a random instance with a label."""
    return LabelledBatch(torch.rand(1, 10, 2, generator=torch.Generator().manual_seed(3)), torch.tensor([TOUR]))


def cvrp() -> LabelledBatch:
    """Return a random instance with a label of routes of one to four customers."""
    tour = [node for route in ROUTES for node in [0, *route]] + [0, 0]
    coords = torch.rand(1, 11, 2, generator=torch.Generator().manual_seed(4))
    return LabelledBatch(coords, torch.tensor([tour]), torch.tensor([DEMAND]), torch.tensor([CAPACITY]))


def draw(batch: LabelledBatch, whole_share: float, k: int = 100, count: int = 400) -> TrainingStates:
    """Return states of the first instance."""
    return SegmentSampler(k, whole_share).sample(batch, count, torch.Generator().manual_seed(5))


def ids(batch: LabelledBatch, places: Tensor) -> list[int]:
    """Return the nodes [K] at some places [K, F]."""
    return torch.cdist(places[:, :2], batch.coords[0]).argmin(dim=1).tolist()


@dataclass
class State:
    """A row of states by the numbers of its nodes."""

    first: int
    last: int
    nodes: list[int]
    directly: set[int]
    via: set[int]
    remaining: int = 0
    fits: tuple[int, ...] = ()


def read(batch: LabelledBatch, states: TrainingStates) -> list[State]:
    """Return the rows of states."""
    rows = []
    for row in range(len(states)):
        seen = states.candidates[row : row + 1]
        (mask,) = seen.mask
        nodes = ids(batch, seen.nodes[0, mask])
        target = states.target[row].view(-1, len(mask))
        assert not bool(target[:, ~mask].any())
        chosen = [{nodes[slot] for slot in torch.nonzero(part[mask]).flatten().tolist()} for part in target]
        state = State(*ids(batch, seen.first), *ids(batch, seen.last), nodes, chosen[0], set())
        if seen.remaining is not None and seen.fits is not None:
            state.via = chosen[1]
            state.remaining = round(float(seen.remaining) * CAPACITY)
            state.fits = tuple(node for node, fit in zip(nodes, seen.fits[0, mask].tolist(), strict=True) if fit)
        rows.append(state)
    return rows


@pytest.mark.parametrize("whole_share", [0.0, 1.0])
def test_the_open_nodes_of_a_tour_lie_between_its_last_node_and_its_destination(whole_share: float) -> None:
    """Walking on from the last node, in one of the two directions, meets the label's next node, all open nodes, and
    then the destination.
    """
    batch = tsp()
    for state in read(batch, draw(batch, whole_share)):
        walks = []
        for tour in (TOUR, TOUR[::-1]):
            start = tour.index(state.last)
            walks.append([tour[(start + step) % 10] for step in range(1, len(state.nodes) + 2)])
        (walk,) = (walk for walk in walks if set(walk[:-1]) == set(state.nodes) and state.directly == {walk[0]})
        assert walk[-1] == state.first


def test_whole_tours_start_where_they_end() -> None:
    """A whole tour has every number of open nodes from 2 to n - 1, and with n - 1 its last node is its destination."""
    batch = tsp()
    states = read(batch, draw(batch, 1.0))
    assert {len(state.nodes) for state in states} == set(range(2, 10))
    assert all((state.first == state.last) == (len(state.nodes) == 9) for state in states)


def test_segments_have_two_ends() -> None:
    """A segment of a tour has two fixed ends and 2 to n - 2 open nodes, few more often than many."""
    batch = tsp()
    sizes = [len(state.nodes) for state in read(batch, draw(batch, 0.0))]
    assert set(sizes) == set(range(2, 9))
    assert sizes.count(2) > 2 * sizes.count(7)


def test_candidates_are_the_open_nodes_nearest_to_the_last_one() -> None:
    """The nearest comes first, and a label beyond them is no target."""
    batch = tsp()
    many, few = (read(batch, draw(batch, 0.5, k)) for k in (100, 3))
    hidden = 0
    for whole, part in zip(many, few, strict=True):
        distance = (batch.coords[0] - batch.coords[0, whole.last]).norm(dim=1)
        assert part.nodes == sorted(whole.nodes, key=lambda node, distance=distance: float(distance[node]))[:3]
        assert part.directly == whole.directly & set(part.nodes)
        hidden += not part.directly
    assert 0 < hidden < len(few)


def open_routes(state: State) -> list[list[int]]:
    """Return what is open of each route of the label."""
    return [[node for node in route if node in state.nodes] for route in ROUTES if set(route) & set(state.nodes)]


@pytest.mark.parametrize("whole_share", [0.0, 1.0])
def test_the_open_customers_of_a_cvrp_are_whole_routes_and_the_rest_of_one(whole_share: float) -> None:
    """Within a route, the label goes on to the next customer, and what was served of the route is used up."""
    batch = cvrp()
    partly = 0
    for state in read(batch, draw(batch, whole_share)):
        assert state.first == 0
        assert state.fits == tuple(node for node in state.nodes if DEMAND[node] <= state.remaining)
        for part in open_routes(state):
            (route,) = (route for route in ROUTES if part[0] in route)
            if part == route:
                continue
            partly += 1
            forward = route if part == route[-len(part) :] else route[::-1]
            served = forward[: -len(part)]
            assert set(forward[-len(part) :]) == set(part)
            assert (state.last, state.directly, state.via) == (served[-1], {forward[len(served)]}, set())
            assert state.remaining == CAPACITY - sum(DEMAND[node] for node in served)
    assert partly > 100


def test_behind_a_route_every_end_of_an_open_route_is_as_good() -> None:
    """The label goes to it via the depot, and from the depot itself also directly; there the vehicle is empty."""
    batch = cvrp()
    starts = {True: 0, False: 0}
    for state in read(batch, draw(batch, 0.5)):
        routes = open_routes(state)
        if not all(route in ROUTES for route in routes):
            continue
        at_depot = state.last == 0
        ends = {end for route in routes for end in (route[0], route[-1])}
        assert state.via == ends
        assert state.directly == (ends if at_depot else set())
        (served,) = ([0],) if at_depot else (route for route in ROUTES if state.last in (route[0], route[-1]))
        assert state.remaining == CAPACITY - sum(DEMAND[node] for node in served)
        starts[at_depot] += 1
    assert min(starts.values()) > 20


def test_a_cvrp_can_start_with_any_route() -> None:
    """Routes come in random order: with few customers open, any route may be the one that is left."""
    batch = cvrp()
    left = {tuple(routes[0]) for state in read(batch, draw(batch, 1.0)) if len(routes := open_routes(state)) == 1}
    assert left >= {tuple(route) for route in ROUTES if len(route) > 1}


def test_states_come_instance_by_instance() -> None:
    """Row i belongs to instance i // per_instance."""
    coords = torch.arange(3.0).view(3, 1, 1).expand(3, 10, 2).clone()
    batch = LabelledBatch(coords, torch.tensor([TOUR] * 3))
    states = SegmentSampler().sample(batch, 4, torch.Generator().manual_seed(0))
    assert states.candidates.last[:, 0].tolist() == np.repeat([0.0, 1.0, 2.0], 4).tolist()


def test_instances_without_a_segment_are_refused() -> None:
    """Of three nodes there is nothing to choose from between two ends."""
    batch = LabelledBatch(torch.rand(1, 3, 2), torch.tensor([[0, 1, 2]]))
    with pytest.raises(UsageError, match="at least 4 nodes, there are 3"):
        SegmentSampler().sample(batch, 1, torch.Generator().manual_seed(0))
