"""L2C-Insert and its control as solvers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nco.errors import CheckpointError, UsageError
from nco.instance import Instance
from nco.models.l2c_insert.network import InsertionNetwork
from nco.models.l2c_insert.pretrained import TrainedInsertion, load_insertion
from nco.search.window import WindowRule
from nco.solvers import make_solver

TINY = {"dim": 8, "heads": 2, "head_dim": 4, "hidden": 8, "encoder_layers": 1, "decoder_layers": 1}


def weights(folder: Path, problem: str, **options: object) -> str:
    """Write untrained weights of a tiny network."""
    torch.manual_seed(0)
    network = InsertionNetwork(problem, **TINY, **options)  # type: ignore[arg-type]
    TrainedInsertion(network, WindowRule(6, 4), "tiny").save(folder / problem)
    return str(folder / problem)


def uniform(problem: str, size: int, number: int = 0, metric: str = "EXACT") -> Instance:
    """Return a uniform instance."""
    rng = np.random.default_rng([size, number])
    coords = rng.random((size, 2)) * (1 if metric == "EXACT" else 1000)
    if problem == "tsp":
        return Instance(f"{size}-{number}", "tsp", coords, metric)
    demand = np.concatenate([[0], rng.integers(0, 10, size - 1)])
    return Instance(f"{size}-{number}", "cvrp", coords, metric, demand=demand, capacity=20 + number)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_mixed_sizes_come_back_in_order(tmp_path: Path, problem: str) -> None:
    """Instances of several sizes are solved in batches of one size, and each solution fits its instance."""
    instances = [uniform(problem, size, number) for number, size in enumerate((12, 20, 12, 2, 20, 3))]
    solver = make_solver("l2c-insert", {"weights": weights(tmp_path, problem), "iterations": 3, "batch_size": 2})
    solutions = solver.solve(instances, seed=1)
    for instance, solution in zip(instances, solutions, strict=True):
        assert sum(map(len, solution.routes)) == instance.num_customers
        assert solution.solver == "l2c-insert"


def test_reconstruction_never_gives_more_than_its_start() -> None:
    """The trace begins with the start's cost and never rises; the last point is the cost."""
    instances = [uniform("tsp", 200), uniform("cvrp", 201)]
    options = {"iterations": 5, "start": "random-insertion"}
    for instance, solution in zip(
        instances, make_solver("cheapest-reconstruction", options).solve(instances, seed=1), strict=True
    ):
        costs = [cost for _, cost in solution.trace]
        (start,) = make_solver("random-insertion").solve([instance], seed=1)
        assert costs[0] == pytest.approx(start.cost)
        assert costs == sorted(costs, reverse=True)
        assert costs[-1] == pytest.approx(solution.cost)
        assert solution.cost < start.cost


def test_an_explicit_matrix_is_reconstructed_by_its_own_weights() -> None:
    """An instance without coordinates is placed in the plane for the search and costed by its matrix."""
    plane = uniform("tsp", 30, metric="EUC_2D")
    matrix = Instance("matrix", "tsp", metric="EXPLICIT", weights=plane.distance_matrix())
    (solution,) = make_solver("cheapest-reconstruction", {"iterations": 30}).solve([matrix], seed=1)
    assert solution.cost == matrix.edge_lengths(solution.routes[0], np.roll(solution.routes[0], -1)).sum()
    assert solution.cost <= solution.trace[0][1]


def test_the_same_seed_gives_the_same_tours() -> None:
    """Two calls with one seed agree."""
    instances = [uniform("cvrp", 40, number) for number in range(3)]
    solver = make_solver("cheapest-reconstruction", {"iterations": 5})
    first, second = (solver.solve(instances, seed=4) for _ in range(2))
    assert [solution.cost for solution in first] == [solution.cost for solution in second]


def test_a_time_limit_ends_the_iterations() -> None:
    """With hardly any time few iterations are done, and the solution is still whole."""
    instances = [uniform("tsp", 300)]
    solver = make_solver("cheapest-reconstruction", {"iterations": 10**6})
    (solution,) = solver.solve(instances, seed=1, time_limit=0.2)
    assert 0 <= int(str(solution.info["iterations"])) < 10**4


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_windows_may_be_projected_and_fused(tmp_path: Path, problem: str) -> None:
    """A map in place of the network's own scaling, in one view and in eight, gives other tours, all of them whole."""
    instances = [uniform(problem, 30, number) for number in range(3)]
    folder = weights(tmp_path, problem)
    costs = set()
    for options in ({}, {"map": "tsp1k"}, {"map": "tsp1k", "fusion": "mvdf"}):
        solver = make_solver("l2c-insert", {"weights": folder, "iterations": 0, **options})
        costs.add(sum(solution.cost for solution in solver.solve(instances, seed=1)))
    assert len(costs) == 3
    with pytest.raises(UsageError, match="unknown fusion 'both'"):
        make_solver("l2c-insert", {"fusion": "both"})


def test_weights_of_the_other_problem_are_refused(tmp_path: Path) -> None:
    """A TSP network does not solve a CVRP."""
    with pytest.raises(CheckpointError, match="trained for tsp, not for cvrp"):
        load_insertion(weights(tmp_path, "tsp"), "cvrp")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"holes": [5, 3]}, "holes are two sizes"),
        ({"order": "random"}, "unknown order 'random'"),
        ({"iterations": -1}, "iterations"),
        ({"device": "abacus"}, "no device 'abacus'"),
        ({"regions": 3}, "has no option 'regions'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], reason: str) -> None:
    """Each wrong option is one clear error, before anything is solved."""
    with pytest.raises(UsageError, match=reason):
        make_solver("cheapest-reconstruction", options)
