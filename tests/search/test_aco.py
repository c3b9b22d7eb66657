"""Ants: what they learn, what they leave, and the rounds they run in."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nco.instance import Instance, InstanceBatch
from nco.search.aco import Colony, ColonyRule, RandomInsertions, add_pheromone, run_rounds
from nco.search.heat import SparseHeat, distance_heat
from nco.search.sampling import GREEDY, SAMPLE
from nco.solution import check_routes, routes_cost, split_giant_tour


def uniform(problem: str, rows: int, size: int) -> list[Instance]:
    """Return uniform instances."""
    rng = np.random.default_rng([rows, size])
    if problem == "tsp":
        return [Instance(f"tsp-{row}", "tsp", rng.random((size, 2))) for row in range(rows)]
    demand = [np.concatenate([[0], rng.integers(1, 10, size - 1)]) for _ in range(rows)]
    return [
        Instance(f"cvrp-{row}", "cvrp", rng.random((size, 2)), demand=demand[row], capacity=25) for row in range(rows)
    ]


def complete_heat(size: int) -> SparseHeat:
    """Return equal heats of all edges of a TSP."""
    neighbours = torch.tensor([[other for other in range(size) if other != node] for node in range(size)])
    return SparseHeat(neighbours[None], torch.full((1, size, size - 1), 0.5))


def dense_pheromone(neighbours: np.ndarray, pheromone: np.ndarray) -> np.ndarray:
    """Return pheromone as a matrix [N, N]."""
    matrix = np.zeros((len(neighbours), len(neighbours)))
    np.put_along_axis(matrix, neighbours.astype(np.int64), pheromone[:, : neighbours.shape[1]], axis=1)
    return matrix


def test_pheromone_falls_on_both_directions_of_the_edges() -> None:
    """On a complete graph the sums are those of a dense matrix, edge by edge."""
    heat, rng = complete_heat(7), np.random.default_rng(0)
    neighbours = heat.neighbours[0].numpy().astype(np.int32)
    tours = np.stack([rng.permutation(7) for _ in range(5)])
    amounts = rng.random(5)
    pheromone = np.zeros((7, 6))
    add_pheromone(neighbours, pheromone, tours, amounts, False)
    expected = np.zeros((7, 7))
    for tour, amount in zip(tours, amounts, strict=True):
        for tail, head in zip(tour, np.roll(tour, -1), strict=True):
            expected[tail, head] += amount
            expected[head, tail] += amount
    assert dense_pheromone(neighbours, pheromone) == pytest.approx(expected)


def test_pheromone_of_a_cvrp_falls_on_edges_as_they_are_travelled() -> None:
    """Its two last columns hold the edges from the depot and to it; edges outside of the graph get none."""
    neighbours = np.array([[0], [2], [1], [2]], dtype=np.int32)
    pheromone = np.zeros((4, 3))
    add_pheromone(neighbours, pheromone, np.array([[0, 1, 2, 0, 3, 0, 0]]), np.array([1.0]), True)
    assert pheromone.tolist() == [[0, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize("pheromone", ["as", "elitist"])
def test_the_shifted_deposit_keeps_the_total_pheromone(pheromone: str) -> None:
    """On a complete graph, what the ants leave makes up for what evaporates of a matrix of ones."""
    [instance] = uniform("tsp", 1, 12)
    batch = InstanceBatch.from_instances([instance])
    colony = Colony(batch, complete_heat(12), 6, SAMPLE, ColonyRule(pheromone))
    rng = np.random.default_rng(0)
    before = colony._pheromone.sum()
    for _ in range(3):
        colony.learn(colony.draw(rng))
    # The diagonal, of which 12 entries of the matrix evaporate, is no edge of the graph.
    assert colony._pheromone.sum() == pytest.approx(before + 12 * (1 - 0.9**3), rel=1e-9)


@pytest.mark.parametrize(
    ("problem", "pheromone"),
    [("tsp", "as"), ("tsp", "elitist"), ("tsp", "max-min"), ("cvrp", "elitist")],
)
def test_ants_learn(problem: str, pheromone: str) -> None:
    """After some rounds the mean tour is shorter than at first, which it is not without pheromone."""
    batch = InstanceBatch.from_instances(uniform(problem, 2, 30))
    heat = distance_heat(batch, 10)

    def improvement(rule: ColonyRule) -> float:
        colony, rng = Colony(batch, heat, 40, SAMPLE, rule), np.random.default_rng(0)
        means = []
        for _ in range(25):
            tours = colony.draw(rng)
            coords = batch.coords.numpy()
            heads = np.roll(tours, -1, axis=2)
            rows = np.arange(2)[:, None, None]
            means.append(np.linalg.norm(coords[rows, tours] - coords[rows, heads], axis=-1).sum(-1).mean())
            colony.learn(tours)
        return 1 - means[-1] / means[0]

    assert improvement(ColonyRule(pheromone)) > 0.05
    assert abs(improvement(ColonyRule("none"))) < 0.03


def test_max_min_keeps_its_bounds() -> None:
    """Pheromone lies between the fixed point of an edge of the best tour and that over 2 N."""
    batch = InstanceBatch.from_instances(uniform("tsp", 1, 20))
    colony, rng = Colony(batch, distance_heat(batch, 6), 10, SAMPLE, ColonyRule("max-min")), np.random.default_rng(0)
    for _ in range(40):
        colony.learn(colony.draw(rng))
    most = 10.0 / colony._best_length[0]
    assert colony._pheromone.max() <= most * (1 + 1e-12)
    assert colony._pheromone.min() >= most / 40 * (1 - 1e-12)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_rounds_return_the_best_tour_of_all(problem: str) -> None:
    """The log never rises, its last point is the cost of the tour, and the tour is feasible."""
    instances = uniform(problem, 3, 25)
    batch = InstanceBatch.from_instances(instances)
    done: list[int] = []
    colony = Colony(batch, distance_heat(batch, 8), 10, SAMPLE)
    best, log = run_rounds(instances, colony, 5, np.random.default_rng(0), progress=done.append)
    assert done == [1, 2, 3, 4, 5] and log.rounds == 5
    points = np.array([costs for _, costs in log.points])
    assert (np.diff(points, axis=0) <= 0).all()
    for row, instance in enumerate(instances):
        routes = split_giant_tour(problem, best[row])
        check_routes(instance, routes)
        assert routes_cost(instance, routes) == pytest.approx(points[-1, row])


def test_the_best_is_that_of_the_instance_s_own_metric() -> None:
    """With rounded distances the tour of the least rounded cost is returned."""
    rng = np.random.default_rng(0)
    instance = Instance("rounded", "tsp", 3.0 * rng.random((12, 2)), "CEIL_2D")
    batch = InstanceBatch.from_instances([instance])
    drawn = Colony(batch, distance_heat(batch, 5), 200, SAMPLE).draw(np.random.default_rng(1))[0]
    [best], _ = run_rounds([instance], Colony(batch, distance_heat(batch, 5), 200, SAMPLE), 1, np.random.default_rng(1))
    assert routes_cost(instance, [best]) == min(routes_cost(instance, [tour]) for tour in drawn)


def test_a_time_limit_leaves_one_round() -> None:
    """Without any time the first round is made all the same."""
    instances = uniform("tsp", 1, 10)
    batch = InstanceBatch.from_instances(instances)
    colony = Colony(batch, distance_heat(batch, 5), 2, GREEDY)
    assert run_rounds(instances, colony, 100, np.random.default_rng(0), time_limit=0.0)[1].rounds == 1


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_random_insertions_are_feasible_and_free_of_threads(problem: str) -> None:
    """The control's tours pass the judge, differ from one another, and do not depend on threads."""
    instances = uniform(problem, 2, 15)
    tours = RandomInsertions(instances, 6).draw(np.random.default_rng(0))
    for row, instance in enumerate(instances):
        for tour in tours[row]:
            check_routes(instance, split_giant_tour(problem, tour))
    assert len({tour.tobytes() for tour in tours[0]}) > 1
    assert np.array_equal(tours, RandomInsertions(instances, 6, threads=3).draw(np.random.default_rng(0)))


def test_wrong_rules_are_refused() -> None:
    """Unknown pheromones and impossible decays are named."""
    with pytest.raises(ValueError, match="unknown pheromone 'rank'"):
        ColonyRule("rank")
    with pytest.raises(ValueError, match="decay lies between 0 and 1"):
        ColonyRule(decay=1.5)
