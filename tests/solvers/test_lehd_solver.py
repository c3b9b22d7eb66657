"""LEHD, TTPL and their control as solvers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nco.errors import CheckpointError, UsageError
from nco.instance import Instance
from nco.models.lehd.network import LehdNetwork
from nco.models.lehd.pretrained import TrainedLehd
from nco.projection.registry import read_registry
from nco.solvers import make_solver

TINY = {"dim": 8, "heads": 2, "head_dim": 4, "hidden": 8, "encoder_layers": 1, "decoder_layers": 1}


def weights(folder: Path, problem: str, **options: object) -> str:
    """Write untrained weights of a tiny network."""
    torch.manual_seed(0)
    network = LehdNetwork(problem, **TINY, **options)  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3.0)  # scores that differ
    TrainedLehd(network, 6, "tiny").save(folder / problem)
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
@pytest.mark.parametrize("fusion", ["none", "mvdf", "best-of-8", "both"])
def test_mixed_sizes_come_back_in_order(tmp_path: Path, problem: str, fusion: str) -> None:
    """Instances of several sizes are solved in batches of one size, and each solution fits its instance."""
    instances = [uniform(problem, size, number) for number, size in enumerate((12, 20, 12, 2, 20, 3))]
    options = {"weights": weights(tmp_path, problem), "iterations": 3, "batch_size": 2, "fusion": fusion, "map": "seed"}
    for instance, solution in zip(instances, make_solver("lehd", options).solve(instances, seed=1), strict=True):
        assert sum(map(len, solution.routes)) == instance.num_customers
        assert (solution.solver, solution.info["map"], solution.info["k"]) == ("lehd", "seed", 6)


def test_reconstruction_never_gives_more_than_its_start() -> None:
    """The trace begins with the start's cost and never rises; the last point is the cost."""
    instances = [uniform("tsp", 200), uniform("cvrp", 201)]
    options = {"iterations": 5, "start": "random-insertion", "segment": [4, 50]}
    solutions = make_solver("nearest-appending", options).solve(instances, seed=1)
    for instance, solution in zip(instances, solutions, strict=True):
        costs = [cost for _, cost in solution.trace]
        (start,) = make_solver("random-insertion").solve([instance], seed=1)
        assert costs[0] == pytest.approx(start.cost)
        assert costs == sorted(costs, reverse=True)
        assert costs[-1] == pytest.approx(solution.cost)
        assert solution.cost < start.cost


def test_best_of_eight_is_at_least_as_good_as_one_view(tmp_path: Path) -> None:
    """The first view is the instance itself; among several instances some other view is better."""
    instances = [uniform("tsp", 30, number, "EUC_2D") for number in range(4)]
    options = {"weights": weights(tmp_path, "tsp"), "iterations": 0}
    one, eight = (
        [solution.cost for solution in make_solver("lehd", {**options, "fusion": fusion}).solve(instances, seed=1)]
        for fusion in ("none", "best-of-8")
    )
    assert all(best <= cost for best, cost in zip(eight, one, strict=True))
    assert sum(eight) < sum(one)


def test_ttpl_takes_the_registry_s_map_for_the_size(tmp_path: Path) -> None:
    """Another file of maps gives other maps, and fusion is on."""
    path = tmp_path / "maps.yaml"
    read_registry().with_program("half", "def project(points):\n    return points / 2.0\n", "tsp", 20).save(path)
    solver = make_solver("ttpl", {"weights": weights(tmp_path, "tsp"), "iterations": 1, "registry": str(path)})
    solutions = solver.solve([uniform("tsp", 20), uniform("tsp", 21)], seed=1)
    assert [solution.info["map"] for solution in solutions] == ["half", "none"]
    assert {solution.info["fusion"] for solution in solutions} == {"mvdf"}


def test_a_map_stands_in_for_the_network_s_own_scaling(tmp_path: Path) -> None:
    """The network scales by itself as the seed map does, but for its clip: "own" differs from "none"."""
    instances = [uniform("tsp", 40, number) for number in range(3)]
    options = {"weights": weights(tmp_path, "tsp", window_scaling="isotropic"), "iterations": 0}
    own, none = (
        [solution.cost for solution in make_solver("lehd", {**options, "map": name}).solve(instances, seed=1)]
        for name in ("own", "none")
    )
    assert own != none


def test_an_explicit_matrix_is_solved_by_its_own_weights() -> None:
    """An instance without coordinates is placed in the plane for the search and costed by its matrix."""
    plane = uniform("tsp", 30, metric="EUC_2D")
    matrix = Instance("matrix", "tsp", metric="EXPLICIT", weights=plane.distance_matrix())
    (solution,) = make_solver("nearest-appending", {"iterations": 30}).solve([matrix], seed=1)
    assert solution.cost == matrix.edge_lengths(solution.routes[0], np.roll(solution.routes[0], -1)).sum()
    assert solution.cost <= solution.trace[0][1]


def test_the_same_seed_gives_the_same_tours() -> None:
    """Two calls with one seed agree."""
    instances = [uniform("cvrp", 40, number) for number in range(3)]
    solver = make_solver("nearest-appending", {"iterations": 5})
    first, second = (solver.solve(instances, seed=4) for _ in range(2))
    assert [solution.cost for solution in first] == [solution.cost for solution in second]


def test_a_time_limit_ends_the_iterations() -> None:
    """With hardly any time few iterations are done, and the solution is still whole."""
    (solution,) = make_solver("nearest-appending", {"iterations": 10**6}).solve(
        [uniform("tsp", 300)], seed=1, time_limit=0.2
    )
    assert 0 <= int(str(solution.info["iterations"])) < 10**4


def test_progress_counts_instances_and_ends_with_all(tmp_path: Path) -> None:
    """It never falls, from the construction on."""
    calls: list[tuple[int, int]] = []
    solver = make_solver("nearest-appending", {"iterations": 3, "batch_size": 2})
    solver.solve([uniform("tsp", 10, number) for number in range(4)], seed=1, progress=lambda *call: calls.append(call))
    assert calls == sorted(calls)
    assert calls[-1] == (4, 4)


def test_weights_of_the_other_problem_are_refused(tmp_path: Path) -> None:
    """A TSP network does not solve a CVRP."""
    solver = make_solver("lehd", {"weights": weights(tmp_path, "tsp")})
    with pytest.raises(CheckpointError, match="trained for tsp, not for cvrp"):
        solver.solve([uniform("cvrp", 10)], seed=1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"segment": [5, 3]}, "segments have two sizes"),
        ({"segment": [5]}, "segment is two sizes"),
        ({"iterations": -1}, "iterations"),
        ({"k": 0}, "the option k"),
        ({"map": "mercator"}, "no projection map named 'mercator'"),
        ({"fusion": "cold"}, "unknown fusion 'cold'"),
        ({"fusion": "both", "start": "nearest-neighbour"}, "is a greedy start"),
        ({"registry": "nowhere.yaml"}, "nowhere.yaml: is no registry"),
        ({"device": "abacus"}, "no device 'abacus'"),
        ({"regions": 3}, "has no option 'regions'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], reason: str) -> None:
    """Each wrong option is one clear error, before anything is solved."""
    for name in ("lehd", "ttpl", "nearest-appending"):
        with pytest.raises(UsageError, match=reason):
            make_solver(name, options)
