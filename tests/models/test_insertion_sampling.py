"""Training states against a slow, obvious model of partial solutions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nco.models.l2c_insert.sampling import StateSampler, chain_times
from nco.models.labelled import LabelledBatch, label_sequence
from nco.search.window import WindowRule
from nco.solution import giant_tour, split_giant_tour

EVERYTHING = WindowRule(positions=1000, unvisited=1000, show_full=True)


def random_labels(problem: str, rows: int = 6, customers: int = 12, seed: int = 0) -> LabelledBatch:
    """Return instances with random, feasible tours: labels need not be good to be consistent."""
    rng = np.random.default_rng(seed)
    is_cvrp = problem == "cvrp"
    coords = rng.random((rows, customers + is_cvrp, 2), dtype=np.float32)
    if not is_cvrp:
        tours = np.stack([rng.permutation(customers) for _ in range(rows)])
        return LabelledBatch(torch.from_numpy(coords), torch.from_numpy(tours))
    demand = np.concatenate([np.zeros((rows, 1), np.int64), rng.integers(0, 10, (rows, customers))], axis=1)
    capacity = rng.integers(12, 40, rows)
    tours = np.zeros((rows, 2 * customers + 1), np.int64)
    for row in range(rows):
        routes: list[list[int]] = [[]]
        for customer in rng.permutation(customers) + 1:
            if demand[row, [*routes[-1], customer]].sum() > capacity[row] or rng.random() < 0.2:
                routes.append([])
            routes[-1].append(int(customer))
        tours[row] = giant_tour("cvrp", [route for route in routes if route], tours.shape[1])
    return LabelledBatch(*(torch.from_numpy(array) for array in (coords, tours, demand, capacity)))


def edges(routes: list[list[int]], closed_by: int | None) -> list[frozenset[int]]:
    """Return the undirected edges of routes, through the depot or as a cycle."""
    found = []
    for route in routes:
        cycle = route if closed_by is None else [closed_by, *route]
        found += [frozenset((a, b)) for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    return found


def node_of(places: torch.Tensor, point: torch.Tensor) -> int:
    """Return which node of an instance lies at a point."""
    return int((places - point).abs().sum(dim=1).argmin())


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("hole_share", [0.0, 1.0])
def test_the_target_leads_to_the_label_restricted_to_what_is_placed(problem: str, hole_share: float) -> None:
    """Inserting at a target position gives the edges of the label restricted to the placed nodes and the current."""
    batch = random_labels(problem)
    per_instance = 20
    sampler = StateSampler(EVERYTHING, hole_share, (2, 8))
    states = sampler.sample(batch, per_instance, torch.Generator().manual_seed(1))
    window = states.window
    depot = 0 if problem == "cvrp" else None
    for row in range(len(states)):
        places = batch.coords[row // per_instance]
        current = node_of(places, window.current[row, :2])
        open_nodes = {
            node_of(places, point[:2])
            for point, real in zip(window.unvisited[row], window.unvisited_mask[row], strict=True)
            if real
        }
        routes = [list(map(int, route)) for route in split_giant_tour(problem, batch.tours[row // per_instance])]
        after = [[node for node in route if node not in open_nodes] for route in routes]
        before = [[node for node in route if node != current] for route in after]
        before, after = ([route for route in group if route] for group in (before, after))
        assert states.target[row].any()
        for slot in range(window.left.shape[1]):
            if not window.position_mask[row, slot]:
                assert not states.target[row, slot]
                continue
            ends = [node_of(places, side[row, slot, :2]) for side in (window.left, window.right)]
            changed = edges(before, depot)
            is_new_route = depot is not None and slot == window.left.shape[1] - 1
            if not is_new_route:
                changed.remove(frozenset(ends))
            changed += [frozenset((ends[0], current)), frozenset((current, ends[1]))]
            assert bool(states.target[row, slot]) == (
                sorted(map(sorted, changed)) == sorted(map(sorted, edges(after, depot)))
            )
        shown = sum(map(bool, window.position_mask[row]))
        singles = sum(len(route) for route in before) + (len(before) + 1 if depot is not None else 0)
        assert shown == singles


def test_remaining_capacity_is_what_the_placed_customers_leave() -> None:
    """A position's remaining capacity is its route's, and positions are allowed where the demand fits, to the unit."""
    batch = random_labels("cvrp", rows=8)
    assert batch.demand is not None
    assert batch.capacity is not None
    states = StateSampler(EVERYTHING, 0.5, (2, 8)).sample(batch, 10, torch.Generator().manual_seed(2))
    window = states.window
    assert window.remaining is not None
    for row in range(len(states)):
        instance = row // 10
        places, capacity = batch.coords[instance], int(batch.capacity[instance])
        routes = [set(map(int, route)) for route in split_giant_tour("cvrp", batch.tours[instance])]
        hidden = {
            node_of(places, p[:2])
            for p, real in zip(window.unvisited[row], window.unvisited_mask[row], strict=True)
            if real
        }
        current = node_of(places, window.current[row, :2])
        hidden.add(current)
        for slot in torch.nonzero(window.position_mask[row]).flatten().tolist():
            ends = {node_of(places, side[row, slot, :2]) for side in (window.left, window.right)} - {0}
            route = next((route for route in routes if ends & route), set())
            spare = capacity - int(batch.demand[instance, list(route - hidden)].sum())
            assert round(float(window.remaining[row, slot]) * capacity) == spare
            assert bool(window.allowed[row, slot]) == (spare >= int(batch.demand[instance, current]))


def test_label_sequence_keeps_routes_and_only_turns_them_around() -> None:
    """Every route of the label appears whole, forward or backward."""
    batch = random_labels("cvrp")
    sequence, route = label_sequence(batch, torch.Generator().manual_seed(0))
    for row in range(len(batch)):
        wanted = [list(map(int, piece)) for piece in split_giant_tour("cvrp", batch.tours[row])]
        found = [(sequence[row][route[row] == number] + 1).tolist() for number in range(len(wanted))]
        assert all(piece in (other, other[::-1]) for piece, other in zip(found, wanted, strict=True))


def test_chain_times_follow_the_nearest_open_node() -> None:
    """Each open node in turn is the closest to the one numbered before it."""
    generator = torch.Generator().manual_seed(0)
    places = torch.rand(5, 15, 2, generator=generator)
    closeness = torch.cdist(places, places)
    open_nodes = torch.rand(5, 15, generator=generator) < 0.7
    last = torch.zeros(5, dtype=torch.long)
    open_nodes[:, 0] = False
    times = chain_times(closeness, open_nodes, last)
    for row in range(5):
        rest, node = set(torch.nonzero(open_nodes[row]).flatten().tolist()), 0
        for time in range(1, len(rest) + 1):
            node = min(rest, key=lambda other: float(closeness[row, node, other]))
            rest.remove(node)
            assert times[row, node] == time
        assert not rest
    assert bool((times[~open_nodes] == 0).all())
