"""GFACS and AGFN as solvers, with their controls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_instances import optimum, random_cvrp, random_tsp

from nco.errors import CheckpointError, UsageError
from nco.instance import Instance
from nco.models.heat_network import HeatNetwork
from nco.models.heat_pretrained import TrainedHeat
from nco.solvers import Solver, make_solver


def weights(folder: Path, problem: str, model: str) -> str:
    """Write random weights of a tiny network."""
    torch.manual_seed(0)
    network = HeatNetwork(problem, depth=2, width=4, kinds=1 if model == "agfn" else 2)
    TrainedHeat(model, network.eval(), 5, "tiny").save(folder / model)
    return str(folder / model)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("name", ["gfacs", "agfn"])
def test_mixed_sizes_come_back_in_order(tmp_path: Path, name: str, problem: str) -> None:
    """Instances of several sizes are solved in batches of one size, the tiny ones too, and solutions fit."""
    make = random_tsp if problem == "tsp" else random_cvrp
    instances = [make(size, number) for number, size in enumerate((12, 20, 12, 2, 20, 1 if problem == "cvrp" else 3))]
    options = {"weights": weights(tmp_path, problem, name), "ants": 4, "batch_size": 2}
    solver = make_solver(name, options | ({"iterations": 2} if name == "gfacs" else {}))
    assert isinstance(solver, Solver)
    done: list[tuple[int, int]] = []
    solutions = solver.solve(instances, seed=1, progress=lambda number, total: done.append((number, total)))
    assert done[-1] == (6, 6)
    for instance, solution in zip(instances, solutions, strict=True):
        assert sum(map(len, solution.routes)) == instance.num_customers
        assert solution.solver == name
        costs = [cost for _, cost in solution.trace]
        assert costs == sorted(costs, reverse=True)
        assert costs[-1] == pytest.approx(solution.cost)


@pytest.mark.parametrize("starts", ["ants", "random-insertion"])
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_local_search_is_optimal_on_tiny_instances(problem: str, starts: str) -> None:
    """Eight nodes against dynamic programming, from ants on lengths and from random insertion."""
    make = random_tsp if problem == "tsp" else random_cvrp
    instances = [make(8 if problem == "tsp" else 7, seed) for seed in range(4)]
    options = {"heat": "distance", "starts": starts, "ants": 20, "iterations": 3}
    for instance, solution in zip(instances, make_solver("gfacs", options).solve(instances, seed=0), strict=True):
        assert solution.cost == pytest.approx(optimum(instance))


def test_controls_make_as_many_local_searches() -> None:
    """Ants and random insertions state the same number of calls, and no heat where none is used."""
    instances = [random_tsp(30, 0)]
    common = {"heat": "distance", "ants": 3, "iterations": 2, "perturbations": 0}
    for starts, heat in (("ants", "distance"), ("random-insertion", None)):
        [solution] = make_solver("gfacs", common | {"starts": starts}).solve(instances, seed=0)
        assert solution.info["local_searches"] == 6
        assert solution.info["heat"] == heat
    [solution] = make_solver("gfacs", common | {"perturbations": 4}).solve(instances, seed=0)
    assert solution.info["local_searches"] == 30


def test_an_untrained_network_needs_no_weights() -> None:
    """Its weights come from the seed, and the global random numbers stay as they were."""
    instances = [random_tsp(20, 0)]
    solver = make_solver("agfn", {"heat": "untrained", "ants": 5})
    before = torch.random.get_rng_state()
    first, second = (solver.solve(instances, seed=3)[0] for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.routes[0].tolist() == second.routes[0].tolist()
    assert first.cost != solver.solve(instances, seed=4)[0].cost


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_seeds_and_threads(problem: str) -> None:
    """Solutions depend on the seed, not on the threads."""
    make = random_tsp if problem == "tsp" else random_cvrp
    instances = [make(30, 3), make(30, 4)]

    def solve(seed: int, threads: int) -> list[float]:
        options = {"heat": "distance", "ants": 6, "iterations": 2, "local_search": False, "threads": threads}
        return [solution.cost for solution in make_solver("gfacs", options).solve(instances, seed=seed)]

    assert solve(1, 1) == solve(1, 2)
    assert solve(1, 1) != solve(2, 1)


def test_an_explicit_matrix_is_searched_itself() -> None:
    """Random weights, which no plane can show, are solved to the optimum."""
    upper = np.triu(np.random.default_rng(0).integers(1, 100, (8, 8)), 1)
    instance = Instance("matrix", "tsp", weights=upper + upper.T, metric="EXPLICIT")
    [solution] = make_solver("gfacs", {"heat": "distance", "ants": 10, "iterations": 3}).solve([instance], seed=0)
    assert solution.cost == optimum(instance)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_points_that_coincide_are_solved(tmp_path: Path, problem: str) -> None:
    """All points equal, and a vehicle that holds one customer: the solution is whole and costs nothing."""
    demand = {} if problem == "tsp" else {"demand": np.array([0] + [7] * 9), "capacity": 7}
    instance = Instance("point", problem, np.ones((10, 2)), **demand)
    for heat in ("network", "distance"):
        options = {"weights": weights(tmp_path, problem, "gfacs"), "heat": heat, "ants": 3, "iterations": 2}
        [solution] = make_solver("gfacs", options).solve([instance], seed=0)
        assert solution.cost == 0.0
        assert len(solution.routes) == (1 if problem == "tsp" else 9)


def test_a_time_limit_ends_the_rounds() -> None:
    """With hardly any time few rounds are made, and the solution is whole."""
    options = {"heat": "distance", "iterations": 10**6, "ants": 2}
    [solution] = make_solver("gfacs", options).solve([random_tsp(50, 0)], seed=1, time_limit=0.2)
    assert 1 <= int(str(solution.info["iterations"])) < 10**5


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    """AGFN does not take those of GFACS."""
    with pytest.raises(CheckpointError, match="holds weights of gfacs, not of agfn"):
        make_solver("agfn", {"weights": weights(tmp_path, "tsp", "gfacs")}).solve([random_tsp(9, 0)], seed=0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ants": 0}, "ants"),
        ({"iterations": 0}, "iterations"),
        ({"decoder": "beam"}, "unknown decoder 'beam'; known are auto, sample"),
        ({"heat": "none"}, "unknown heat 'none'"),
        ({"starts": "sweep"}, "unknown starts 'sweep'"),
        ({"pheromone": "rank"}, "unknown pheromone 'rank'"),
        ({"epsilon": 2.0}, "at most 1"),
        ({"decay": -1}, "decay"),
        ({"perturbations": -1}, "perturbations"),
        ({"ant": 3}, "has no option 'ant'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], reason: str) -> None:
    """Each is one clear error, before anything is solved."""
    with pytest.raises(UsageError, match=reason):
        make_solver("gfacs", options)


def test_perturbations_of_large_instances_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for above the limit they are an error; by default there are none."""
    monkeypatch.setattr("nco.solvers.gflownet.DENSE_LIMIT", 20)
    instances = [random_tsp(25, 0)]
    options = {"heat": "distance", "ants": 2, "iterations": 1}
    with pytest.raises(UsageError, match="25 nodes are too many for perturbations"):
        make_solver("gfacs", options | {"perturbations": 2}).solve(instances, seed=0)
    assert make_solver("gfacs", options).solve(instances, seed=0)[0].info["local_searches"] == 2


def test_released_weights_reproduce_the_published_costs(shared: Path) -> None:
    """HBG-AGFN, greedy, on eight CVRP200 of the parity set: the mean of the stored paths' costs.

    Costs of single instances may differ where two heats are nearly tied.
    """
    from safetensors.torch import load_file

    from nco.instance import InstanceBatch
    from nco.models.heat_network import heat_of
    from nco.models.heat_pretrained import load_heat
    from nco.search.sampling import GREEDY, sample_trajectories

    stored = load_file(shared / "parity" / "hbg_agfn_cvrp200_greedy.safetensors")
    coords = torch.cat([stored["depot"][:8, None], stored["customers"][:8]], dim=1).float()
    demand = torch.nn.functional.pad(stored["demand"][:8].long(), (1, 0))
    batch = InstanceBatch(coords, demand, torch.full((8,), 50))
    network = load_heat(shared / "parity" / "hbg_agfn_cvrp_weights.safetensors", "cvrp", "agfn").network
    with torch.inference_mode():
        heat = heat_of(network, batch, 40)
    costs = sample_trajectories(batch, heat, 1, GREEDY, np.random.default_rng(0)).costs[:, 0]
    assert costs.mean().item() == pytest.approx(stored["cost"][:8].mean().item(), rel=2e-3)
    assert ((costs - stored["cost"][:8]).abs() < 1e-4).sum() >= 6
