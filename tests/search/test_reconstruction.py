"""Local reconstruction and greedy insertion, against plain lists and the judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nco.envs import CVRPEnv, TSPEnv
from nco.instance import Instance, InstanceBatch
from nco.search.construction import construct_greedily
from nco.search.partial import EdgeLengths, PartialSolutions
from nco.search.reconstruction import rebuild_regions, reconstruct, solution_costs
from nco.search.regions import RegionRule, draw_regions, voronoi_cells
from nco.search.window import Window, WindowRule, cheapest_insertion, nearest_slots
from nco.solution import Solution, giant_tour, routes_cost, split_giant_tour

WINDOW = WindowRule(8, 4)


def random_instances(problem: str, count: int, size: int, seed: int, metric: str = "EXACT") -> list[Instance]:
    """Return uniform instances; every CVRP has a capacity of its own, and some customers demand nothing."""
    rng = np.random.default_rng(seed)
    instances = []
    for number in range(count):
        coords = rng.random((size, 2)) * (1 if metric == "EXACT" else 1000)
        if problem == "tsp":
            instances.append(Instance(str(number), "tsp", coords, metric))
            continue
        demand = np.concatenate([[0], rng.integers(0, 10, size - 1)])
        capacity = int(rng.integers(10, 40))
        instances.append(Instance(str(number), "cvrp", coords, metric, demand=demand, capacity=capacity))
    return instances


def random_tours(instances: list[Instance], seed: int) -> Tensor:
    """Return feasible giant tours in random order, with a new route wherever the old one is full."""
    rng = np.random.default_rng(seed)
    tours = []
    for instance in instances:
        order = rng.permutation(instance.num_customers) + (instance.problem == "cvrp")
        if instance.problem == "tsp":
            tours.append(order)
            continue
        assert instance.demand is not None
        assert instance.capacity is not None
        routes: list[list[int]] = [[]]
        for customer in order:
            if instance.demand[[*routes[-1], customer]].sum() > instance.capacity:
                routes.append([])
            routes[-1].append(int(customer))
        tours.append(giant_tour("cvrp", routes, 2 * instance.num_nodes - 1))
    return torch.from_numpy(np.stack(tours))


def random_scorer(seed: int):  # type: ignore[no-untyped-def]
    """Return a scorer that likes positions at random."""
    generator = torch.Generator().manual_seed(seed)

    def score(window: Window) -> Tensor:
        noise = torch.rand(window.allowed.shape, generator=generator)
        return torch.where(window.allowed, noise, -torch.inf)

    return score


def forbid_everything(window: Window) -> Tensor:
    """Score every position with minus infinity."""
    return torch.full(window.allowed.shape, -torch.inf)


def judged(instances: list[Instance], tours: Tensor) -> list[Solution]:
    """Pass every tour through the judge."""
    return [
        Solution.judged(instance, split_giant_tour(instance.problem, tour.numpy()))
        for instance, tour in zip(instances, tours, strict=True)
    ]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    problem=st.sampled_from(["tsp", "cvrp"]),
    size=st.integers(2, 40),
    region=st.integers(3, 50),
    single=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_scorer_leaves_feasible_solutions_that_are_never_longer(
    problem: str, size: int, region: int, single: bool, seed: int
) -> None:
    """Random choices of positions, in many regions at once, keep every rule, and no instance gets longer."""
    instances = random_instances(problem, 3, size, seed)
    batch = InstanceBatch.from_instances(instances)
    start = random_tours(instances, seed)
    rule = RegionRule(region, (1, 12), single)
    tours, log = reconstruct(
        instances,
        batch,
        start,
        random_scorer(seed),
        np.random.default_rng(seed),
        window=WINDOW,
        regions=rule,
        iterations=6,
    )
    before, after = judged(instances, start), judged(instances, tours)
    for row in range(3):
        assert after[row].cost <= before[row].cost + 1e-9
        assert log.points[-1][1][row] == pytest.approx(after[row].cost)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_the_change_of_every_region_adds_up_to_the_change_of_cost(problem: str) -> None:
    """Accepted changes of disjoint regions sum to the difference of recomputed costs, region by region."""
    instances = random_instances(problem, 2, 80, 5)
    batch = InstanceBatch.from_instances(instances)
    partial = PartialSolutions(batch, random_tours(instances, 5))
    lengths = EdgeLengths(instances, partial)
    rng = np.random.default_rng(0)
    cost = solution_costs(partial, lengths)
    kept = 0
    for _ in range(10):
        regions = draw_regions(partial, RegionRule(20, (3, 10)), rng)
        assert regions is not None
        change = rebuild_regions(partial, regions, lengths, cheapest_insertion, WINDOW, rng)
        cost = cost.index_add(0, regions.instance, change)
        kept += int((change < 0).sum())
        found = [solution.cost for solution in judged(instances, partial.tours())]
        assert cost.tolist() == pytest.approx(found)
    assert kept > 5


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_regions_are_disjoint_and_own_the_edges_they_change(problem: str) -> None:
    """No token is a member of two regions, and the neighbours of what is removed belong to the region or the depot."""
    instances = random_instances(problem, 3, 120, 1)
    partial = PartialSolutions(InstanceBatch.from_instances(instances), random_tours(instances, 1))
    rng = np.random.default_rng(3)
    removed_somewhere = 0
    for _ in range(20):
        regions = draw_regions(partial, RegionRule(30, (2, 10)), rng)
        if regions is None:
            continue
        members = regions.members[regions.members != partial.pad]
        assert len(members.unique()) == len(members)
        for row in range(len(regions.sizes)):
            inside = set(regions.members[row].tolist())
            removed = [token for token in regions.removed[row].tolist() if token != partial.pad]
            assert len(removed) == int(regions.sizes[row])
            removed_somewhere += len(removed)
            for token in removed:
                assert token in inside
                assert int(partial.pred[token]) in inside
                assert int(partial.succ[token]) in inside or bool(partial.is_depot[partial.succ[token]])
    assert removed_somewhere > 50


def test_regions_of_one_instance_never_overload_a_route_together() -> None:
    """A route with little to spare that many regions touch stays within its capacity whatever they choose."""
    rng = np.random.default_rng(0)
    coords = rng.random((101, 2))
    demand = np.concatenate([[0], np.ones(100, np.int64)])
    instance = Instance("tight", "cvrp", coords, demand=demand, capacity=26)
    order = np.argsort(coords[1:, 0]) + 1
    routes = [order[number::4] for number in range(4)]
    batch = InstanceBatch.from_instances([instance])
    start = torch.from_numpy(giant_tour("cvrp", routes, 201))[None]
    for seed in range(5):
        tours, log = reconstruct(
            [instance], batch, start, random_scorer(seed), np.random.default_rng(seed),
            window=WindowRule(30, 4), regions=RegionRule(12, (1, 6)), iterations=10,
        )  # fmt: skip
        assert log.regions > 20
        judged([instance], tours)


def test_a_region_that_cannot_place_a_node_is_given_back() -> None:
    """Where a scorer allows nothing, the solution stays as it was."""
    instances = random_instances("cvrp", 2, 30, 4)
    start = random_tours(instances, 4)
    tours, log = reconstruct(
        instances, InstanceBatch.from_instances(instances), start, forbid_everything,
        np.random.default_rng(0), window=WINDOW, regions=RegionRule(100, (3, 10)), iterations=3,
    )  # fmt: skip
    assert log.improved == 0
    for before, after in zip(judged(instances, start), judged(instances, tours), strict=True):
        assert sorted(map(tuple, before.routes)) == sorted(map(tuple, after.routes))


def test_cheapest_insertion_agrees_with_a_plain_rebuild() -> None:
    """One hole of a tour, refilled by cheapest insertion next to the last node, equals a rebuild with plain lists."""
    instances = random_instances("tsp", 1, 25, 8)
    coords = torch.tensor(instances[0].coords)
    batch = InstanceBatch.from_instances(instances)
    start = random_tours(instances, 8)
    for seed in range(10):
        partial = PartialSolutions(batch, start)
        regions = draw_regions(partial, RegionRule(100, (5, 12)), np.random.default_rng(seed))
        assert regions is not None
        lengths = EdgeLengths(instances, partial)
        rule = WindowRule(1000, 1000)
        change = float(rebuild_regions(partial, regions, lengths, cheapest_insertion, rule, np.random.default_rng(9)))
        tour = [int(node) for node in start[0] if int(node) not in regions.removed[0].tolist()]
        best = np.inf
        # The order starts next to a random node that stays; the rebuild must equal one of those.
        for entrance in tour:
            best = min(
                best,
                abs(
                    change
                    - min(
                        plain_change(coords, start[0].tolist(), list(tour), regions.removed[0].tolist(), entrance), 0.0
                    )
                ),
            )
        assert best < 1e-6


def plain_change(coords: Tensor, old: list[int], tour: list[int], removed: list[int], last: int) -> float:
    """Refill a tour by cheapest insertion and return the change of its length."""

    def distance(a: int, b: int) -> float:
        return float((coords[a] - coords[b]).norm())

    def length(cycle: list[int]) -> float:
        return sum(distance(a, b) for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))

    removed = list(removed)
    while removed:
        node = min(removed, key=lambda other: distance(last, other))
        removed.remove(node)
        costs = [
            distance(a, node) + distance(node, b) - distance(a, b)
            for a, b in zip(tour, tour[1:] + tour[:1], strict=True)
        ]
        tour.insert(int(np.argmin(costs)) + 1, node)
        last = node
    return length(tour) - length(old)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(problem=st.sampled_from(["tsp", "cvrp"]), size=st.integers(2, 30), seed=st.integers(0, 1000))
def test_greedy_insertion_gives_feasible_solutions_for_any_scorer(problem: str, size: int, seed: int) -> None:
    """Construction from nothing places every node once and keeps capacities."""
    instances = random_instances(problem, 3, size, seed)
    order = "polar" if problem == "cvrp" else "nearest"
    tours = construct_greedily(
        InstanceBatch.from_instances(instances), random_scorer(seed), replace(WINDOW, order=order)
    )
    judged(instances, tours)


def test_greedy_insertion_opens_a_route_for_each_customer_that_fills_one() -> None:
    """Demands equal to the capacity give one route each."""
    coords = np.random.default_rng(0).random((8, 2))
    instance = Instance("full", "cvrp", coords, demand=[0] + [5] * 7, capacity=5)
    tours = construct_greedily(
        InstanceBatch.from_instances([instance]), cheapest_insertion, replace(WINDOW, order="polar")
    )
    assert len(split_giant_tour("cvrp", tours[0].numpy())) == 7


@pytest.mark.parametrize("metric", ["EUC_2D", "CEIL_2D", "ATT"])
def test_regions_are_accepted_by_the_instances_own_metric(metric: str) -> None:
    """Costs over time are the judge's costs under the metric of the file."""
    instances = random_instances("tsp", 2, 40, 3, metric)
    start = random_tours(instances, 3)
    tours, log = reconstruct(
        instances, InstanceBatch.from_instances(instances), start, cheapest_insertion, np.random.default_rng(0),
        window=WINDOW, regions=RegionRule(100, (4, 20)), iterations=20,
    )  # fmt: skip
    assert [solution.cost for solution in judged(instances, tours)] == log.points[-1][1].tolist()
    assert (log.points[-1][1] < log.points[0][1]).all()


def test_mixed_metrics_and_matrices_are_costed_one_by_one() -> None:
    """An explicit matrix beside a plane instance: each edge is looked up in its own instance."""
    plane = random_instances("tsp", 1, 12, 0)[0]
    matrix = Instance("matrix", "tsp", metric="EXPLICIT", weights=np.rint(100 * plane.distance_matrix()))
    instances = [plane, matrix]
    start = random_tours(instances, 2)
    partial = PartialSolutions(InstanceBatch.from_instances(instances), start)
    found = solution_costs(partial, EdgeLengths(instances, partial)).tolist()
    assert found == pytest.approx([routes_cost(one, [tour]) for one, tour in zip(instances, start, strict=True)])


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_tours_survive_the_way_through_flat_tokens(problem: str) -> None:
    """Giant tours come back with the same routes and cost."""
    instances = random_instances(problem, 4, 20, 6)
    batch, start = InstanceBatch.from_instances(instances), random_tours(instances, 6)
    tours = PartialSolutions(batch, start).tours()
    env = CVRPEnv() if problem == "cvrp" else TSPEnv()
    env.check(batch, tours)
    assert torch.allclose(env.cost(batch, tours), env.cost(batch, start))


def test_the_same_seed_gives_the_same_tours() -> None:
    """Two runs with one seed agree, and another seed differs."""
    instances = random_instances("tsp", 2, 50, 7)
    batch, start = InstanceBatch.from_instances(instances), random_tours(instances, 7)

    def run(seed: int) -> Tensor:
        rng = np.random.default_rng(seed)
        rule = RegionRule(25, (4, 12))
        return reconstruct(instances, batch, start, cheapest_insertion, rng, window=WINDOW, regions=rule, iterations=5)[
            0
        ]

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_replicas_go_on_from_the_best_of_them(problem: str) -> None:
    """Copies of an instance share the best tour after each iteration: costs fall faster than for one copy, and hold."""
    instances = random_instances(problem, 2, 40, 11)
    batch, start = InstanceBatch.from_instances(instances), random_tours(instances, 11)
    costs = {}
    for replicas in (1, 8):
        tours, log = reconstruct(
            instances, batch, start, cheapest_insertion, np.random.default_rng(0),
            window=WINDOW, regions=RegionRule(100, (4, 20)), iterations=10, replicas=replicas,
        )  # fmt: skip
        found = [solution.cost for solution in judged(instances, tours)]
        assert found == pytest.approx(list(log.points[-1][1]))
        assert len(log.points[0][1]) == 2
        costs[replicas] = sum(found)
    assert costs[8] < costs[1]


def test_a_reconstruction_without_limits_is_refused() -> None:
    """Neither iterations nor a time limit would run for ever."""
    instances = random_instances("tsp", 1, 5, 0)
    with pytest.raises(ValueError, match="needs a limit"):
        reconstruct(
            instances, InstanceBatch.from_instances(instances), random_tours(instances, 0), cheapest_insertion,
            np.random.default_rng(0), window=WINDOW, regions=RegionRule(),
        )  # fmt: skip


def test_voronoi_cells_put_points_with_their_nearest_centre_in_even_parts() -> None:
    """Cells cover all points, and after Lloyd steps no cell of uniform points is far above the mean."""
    places = np.random.default_rng(0).random((2000, 2))
    cells = voronoi_cells(places, 20, np.random.default_rng(1))
    counts = np.bincount(cells, minlength=20)
    assert counts.sum() == 2000
    assert counts.max() < 250


def test_nearest_slots_take_the_lower_index_of_a_tie() -> None:
    """Equal distances come in index order, and missing entries last."""
    distance = torch.tensor([[2.0, 1.0, 1.0, torch.inf, 0.0, 1.0]])
    assert nearest_slots(distance, 4).tolist() == [[4, 1, 2, 5]]
    assert nearest_slots(distance, 10).tolist() == [[4, 1, 2, 5, 0, 3]]
