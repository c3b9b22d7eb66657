"""Local search of CVRP routes: moves against costs counted anew, optima, guidance, border cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nco.instance import InstanceBatch
from nco.search import route_moves
from nco.search.guided import Guidance, heat_distances
from nco.search.heat import distance_heat
from nco.search.insertion import random_insertion
from nco.search.route_descent import _new_plan
from nco.search.route_search import RouteSearch
from nco.search.space import dense, space_of
from nco.search.swap_star import swap_star
from nco.search.tsp_descent import neighbour_distances
from nco.solution import Instance, check_routes, giant_tour, routes_cost, split_giant_tour


def random_cvrp(customers: int, seed: int, capacity: int = 20, metric: str = "EXACT") -> Instance:
    """Return uniform points with demands from 1 to 9."""
    rng = np.random.default_rng(seed)
    demand = np.concatenate([[0], rng.integers(1, 10, customers)])
    return Instance("cvrp", "cvrp", 100 * rng.random((customers + 1, 2)), metric, demand=demand, capacity=capacity)


def random_tours(instance: Instance, count: int, seed: int = 0) -> np.ndarray:
    """Return random feasible giant tours, int64 [count, 2 N]."""
    rng = np.random.default_rng(seed)
    tours = []
    for _ in range(count):
        routes, load = [[]], 0
        for node in rng.permutation(instance.num_customers) + 1:
            if load + instance.demand[node] > instance.capacity:
                routes, load = [*routes, []], 0
            routes[-1].append(node)
            load += instance.demand[node]
        tours.append(giant_tour("cvrp", routes, 2 * instance.num_nodes))
    return np.stack(tours)


def search_of(instances: list[Instance], **options: object) -> RouteSearch:
    """Return the search of instances."""
    return RouteSearch(
        [space_of(instance) for instance in instances],
        [instance.demand for instance in instances],
        [instance.capacity for instance in instances],
        **options,
    )


def plan_of(instance: Instance, tour: np.ndarray) -> route_moves.Plan:
    """Return a solution as kernels see it."""
    plan = _new_plan(tour, instance.demand, instance.capacity)
    route_moves.load_plan(plan, tour)
    return plan


def cost_of(instance: Instance, plan: route_moves.Plan) -> float:
    """Check a plan, its counts included, and return its cost."""
    tour = np.zeros(2 * instance.num_nodes, dtype=np.int64)
    route_moves.save_plan(plan, tour)
    routes = split_giant_tour("cvrp", tour)
    check_routes(instance, routes)
    for route in routes:
        number = plan.route[route[0]]
        assert plan.load[number] == instance.demand[route].sum()
        assert plan.until[route].tolist() == instance.demand[route].cumsum().tolist()
        assert plan.place[route].tolist() == list(range(1, len(route) + 1))
    assert route_moves.plan_length(space_of(instance), plan) == pytest.approx(routes_cost(instance, routes))
    return routes_cost(instance, routes)


@pytest.mark.parametrize("capacity", [9, 20, 60, 1000])
def test_each_move_gains_what_it_says(capacity: int) -> None:
    """Along descents from random solutions every move is feasible and its gain the difference of the costs."""
    kinds = set()
    for seed in range(6):
        instance = random_cvrp(25, seed, capacity)
        space = space_of(instance)
        others = [[node for node in range(1, 26) if node != u] for u in range(1, 26)]
        lists = np.array([[1] * 24, *others], dtype=np.int32)
        order = np.argsort(instance.distance_matrix()[np.arange(26)[:, None], lists], axis=1, kind="stable")
        lists = np.take_along_axis(lists, order, axis=1)
        reach = neighbour_distances(space, lists)
        plan = plan_of(instance, random_tours(instance, 1, seed)[0])
        cost = cost_of(instance, plan)
        for _ in range(4):
            for u in range(1, 26):
                gain, kind, *move = route_moves.find_move(space, plan, lists, reach, 1e-9, u)
                if kind != route_moves.NO_MOVE:
                    kinds.add(kind)
                    route_moves.make_move(plan, kind, u, *move)
                    before, cost = cost, cost_of(instance, plan)
                    assert before - cost == pytest.approx(gain)
    expected = {route_moves.CROSS, route_moves.RELOCATE}
    assert kinds == (expected if capacity == 1000 else expected | {route_moves.EXCHANGE})


def best_swap(instance: Instance, routes: list[list[int]]) -> float:
    """Return the least cost after two customers of two routes have changed routes, by trying all places."""
    least = np.inf
    for u, v in itertools.product(*routes):
        first, second = ([node for node in route if node not in (u, v)] for route in routes)
        for i, j in itertools.product(range(len(first) + 1), range(len(second) + 1)):
            changed = [[*first[:i], v, *first[i:]], [*second[:j], u, *second[j:]]]
            if all(instance.demand[route].sum() <= instance.capacity for route in changed):
                least = min(least, routes_cost(instance, changed))
    return least


def test_swap_star_finds_the_best_swap() -> None:
    """Between two routes of five customers, against all pairs and places."""
    for seed in range(30):
        instance = random_cvrp(10, seed, 28)
        rng = np.random.default_rng(seed)
        while True:
            routes = (rng.permutation(10) + 1).reshape(2, 5).tolist()
            if all(instance.demand[route].sum() <= 28 for route in routes):
                break
            instance = random_cvrp(10, int(rng.integers(1 << 30)), 28)
        plan = plan_of(instance, giant_tour("cvrp", routes, 22))
        before = cost_of(instance, plan)
        swap_star(space_of(instance), plan, 0, 1, 1e-9)
        assert cost_of(instance, plan) == pytest.approx(min(before, best_swap(instance, routes)))


def test_solutions_are_feasible_and_far_better() -> None:
    """Random insertion, and random order, lose much of their cost, and a local optimum gains no more."""
    instance = random_cvrp(80, 1, 50)
    rng = np.random.default_rng(0)
    inserted = random_insertion(instance.coords, rng, instance.demand, instance.capacity)
    tours = random_tours(instance, 4)
    tours[0] = 0
    tours[0, : len(inserted)] = inserted
    search = search_of([instance])
    found = search(tours[None], rng)[0]
    again = search(found[None], rng)[0]
    for before, after, last in zip(tours, found, again, strict=True):
        costs = [routes_cost(instance, split_giant_tour("cvrp", tour)) for tour in (before, after, last)]
        check_routes(instance, split_giant_tour("cvrp", after))
        assert costs[1] < 0.8 * costs[0]
        assert costs[1] * 0.99 < costs[2] <= costs[1]


def test_threads_and_neighbours_in_a_batch_change_nothing() -> None:
    """A solution depends on its start alone."""
    instances = [random_cvrp(40, seed) for seed in range(3)]
    tours = np.stack([random_tours(instance, 5) for instance in instances])
    rng = np.random.default_rng
    found = search_of(instances)(tours, rng(0))
    assert np.array_equal(found, search_of(instances, threads=3)(tours, rng(0)))
    assert np.array_equal(found[1:2, 2:3], search_of(instances[1:2])(tours[1:2, 2:3], rng(5)))


def test_guidance_only_helps() -> None:
    """The best of several local optima is at most the first, and depends on the seed but not on threads."""
    instances = [random_cvrp(60, seed) for seed in range(2)]
    heat = distance_heat(InstanceBatch.from_instances(instances), 10)
    tours = np.stack([random_tours(instance, 4) for instance in instances])
    plain = search_of(instances)(tours, np.random.default_rng(0))

    def guided(seed: int, threads: int = 1) -> np.ndarray:
        search = search_of(instances, heat=heat, guidance=Guidance(3, 10), threads=threads)
        return search(tours, np.random.default_rng(seed))

    found = guided(0)
    better = 0
    for row, instance in enumerate(instances):
        for before, after in zip(plain[row], found[row], strict=True):
            routes = [split_giant_tour("cvrp", tour) for tour in (before, after)]
            check_routes(instance, routes[1])
            first, best = (routes_cost(instance, each) for each in routes)
            assert best <= first + 1e-9
            better += best < first - 1e-9
    assert better >= 4
    assert np.array_equal(found, guided(0, threads=2))
    assert not np.array_equal(found, guided(1))


def test_another_metric_is_searched_itself() -> None:
    """A matrix that no plane can show leads to the same optimum as trying everything."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        upper = np.triu(rng.integers(1, 100, (5, 5)), 1).astype(float)
        instance = Instance(
            "matrix", "cvrp", metric="EXPLICIT", weights=upper + upper.T, demand=np.array([0, 1, 1, 1, 1]), capacity=4
        )
        least = min(
            routes_cost(instance, split_giant_tour("cvrp", np.insert(order, sorted(cuts), 0)))
            for order in itertools.permutations(range(1, 5))
            for many in range(4)
            for cuts in itertools.combinations(range(1, 4), many)
        )
        starts = random_tours(instance, 30)
        found = search_of([instance])(starts[None], rng)[0]
        assert min(routes_cost(instance, split_giant_tour("cvrp", tour)) for tour in found) <= least * 1.1


@pytest.mark.parametrize("customers", [1, 2, 3])
def test_few_customers(customers: int) -> None:
    """One, two and three customers, each on a route of its own, are joined where that gains."""
    instance = random_cvrp(customers, 0, capacity=100)
    tour = giant_tour("cvrp", [[node] for node in range(1, customers + 1)], 2 * customers + 2)
    [[found]] = search_of([instance])(tour[None, None], np.random.default_rng(0))
    routes = split_giant_tour("cvrp", found)
    check_routes(instance, routes)
    assert len(routes) == 1


def test_points_that_coincide_end() -> None:
    """Without any distance nothing gains."""
    demand = np.array([0, 3, 3, 3, 3])
    instance = Instance("point", "cvrp", np.zeros((5, 2)), demand=demand, capacity=6)
    tours = random_tours(instance, 2)
    found = search_of([instance])(tours[None], np.random.default_rng(0))
    assert np.array_equal(np.sort(found), np.sort(tours[None]))


def test_heat_distances_are_those_of_the_formula() -> None:
    """1 / (heat / largest of the row + 1e-5), the smaller of both directions; 1e5 without a heat."""
    instances = [random_cvrp(7, 0)]
    heat = distance_heat(InstanceBatch.from_instances(instances), 3)
    matrix = heat_distances(heat, 0)
    heats = np.zeros((8, 8))
    heats[0], heats[:, 0] = heat.from_depot[0], heat.to_depot[0]
    heats[0, 0] = 0
    for node in range(1, 8):
        heats[node, heat.neighbours[0, node]] = heat.heat[0, node]
    for tail, head in itertools.permutations(range(8), 2):
        both = [1 / (heats[i, j] / heats[i].max() + 1e-5) for i, j in ((tail, head), (head, tail))]
        assert matrix[tail, head] == pytest.approx(min(both), rel=1e-6)
    assert dense(matrix).num_nodes == 8


def test_guidance_needs_a_heat() -> None:
    """Without one it is an error."""
    with pytest.raises(ValueError, match="guided search needs a heat"):
        search_of([random_cvrp(5, 0)], guidance=Guidance())
