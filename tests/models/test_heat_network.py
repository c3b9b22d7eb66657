"""The networks of GFACS, AGFN and HBG against the published numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nco.cli import main
from nco.errors import CheckpointError
from nco.instance import InstanceBatch
from nco.models.heat_network import Flows, HeatNetwork, heat_of
from nco.models.heat_pretrained import TrainedHeat, from_authors, load_heat
from nco.models.sparse_graphs import nearest_count, sparse_graphs
from nco.search.heat import nearest_graph

NAMES = {
    "hbg_gfacs_tsp": ("gfacs", 69_445),
    "hbg_gfacs_cvrp": ("gfacs", 69_413),
    "hbg_agfn_tsp": ("agfn", 69_379),
    "hbg_agfn_cvrp": ("agfn", 353_987),
    "gfacs_tsp200": ("gfacs", 68_323),
    "gfacs_cvrp200": ("gfacs", 68_291),
}
K = 10


def published(shared: Path, name: str) -> TrainedHeat:
    """Return a published network."""
    return load_heat(shared / "parity" / f"{name}_weights.safetensors")


def instance(shared: Path, problem: str) -> InstanceBatch:
    """Return the instance of the fixtures, of 50 cities or customers, as it is: not scaled."""
    graph = load_file(shared / "parity" / f"graph_{problem}50.safetensors")
    coords = graph["coords"].float()[None]
    if problem == "tsp":
        return InstanceBatch(coords)
    demand = (graph["demand_over_capacity"] * 40).round().long()[None]
    return InstanceBatch(coords, demand, torch.tensor([40]))


def problem_of(name: str) -> str:
    """Return the problem in a fixture's name."""
    return "tsp" if "tsp" in name else "cvrp"


def flat(flows: Flows) -> torch.Tensor:
    """Return the heats of the first instance in the order of the fixtures' edges."""
    heat = flows.heat
    if heat.from_depot is None or heat.to_depot is None:
        return heat.heat[0].flatten()
    return torch.cat([heat.heat[0, 1:].flatten(), heat.from_depot[0, 1:], heat.to_depot[0, 1:]])


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_graphs_are_the_published_ones(shared: Path, problem: str) -> None:
    """Edges in the same order, lengths and node features up to rounding."""
    graph = load_file(shared / "parity" / f"graph_{problem}50.safetensors")
    batch = instance(shared, problem)
    found = sparse_graphs(batch, nearest_graph(batch, K))
    assert torch.equal(found.edge_index, graph["edge_index"])
    torch.testing.assert_close(found.edge_attr, graph["edge_attr"], atol=1e-6, rtol=0)
    torch.testing.assert_close(found.x, graph["node_feat"], atol=1e-7, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_the_published_ones(shared: Path, name: str) -> None:
    """Heats to 2e-5; log Z and log-flow to 1e-5 of the largest: sums of terms of that size in single precision."""
    wanted = load_file(shared / "parity" / f"{name}_outputs.safetensors")
    network, batch = published(shared, name).network, instance(shared, problem_of(name))
    flows = network(batch, nearest_graph(batch, K))
    torch.testing.assert_close(flat(flows), wanted["heat"], atol=2e-5, rtol=0)
    torch.testing.assert_close(flows.log_z[0], wanted["logZ"], atol=0, rtol=1e-5)
    assert (flows.log_flow is None) == ("log_flow" not in wanted)
    if flows.log_flow is not None:
        largest = float(wanted["log_flow"].abs().max())
        torch.testing.assert_close(flows.log_flow[0], wanted["log_flow"], atol=1e-5 * largest, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_published_checkpoints_are_told_apart(shared: Path, name: str) -> None:
    """Model, problem and the number of parameters follow from the shapes."""
    trained = published(shared, name)
    parameters = sum(parameter.numel() for parameter in trained.network.parameters())
    assert (trained.model, parameters) == NAMES[name]
    assert trained.network.problem == problem_of(name)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_instances_of_a_batch_are_seen_alone(problem: str) -> None:
    """In evaluation, an instance's outputs do not depend on what else is in the batch."""
    torch.manual_seed(0)
    network = HeatNetwork(problem, depth=2, width=8).eval()
    batch = InstanceBatch(torch.rand(3, 12, 2))
    if problem == "cvrp":
        demand = torch.randint(1, 10, (3, 12))
        demand[:, 0] = 0
        batch = InstanceBatch(batch.coords, demand, torch.tensor([20, 30, 40]))
    together = network(batch, nearest_graph(batch, 4))
    for row in range(3):
        alone = network(batch[row : row + 1], nearest_graph(batch[row : row + 1], 4))
        torch.testing.assert_close(alone.heat.heat[0], together.heat.heat[row])
        torch.testing.assert_close(alone.log_z[0], together.log_z[row])
        assert alone.log_flow is not None and together.log_flow is not None
        torch.testing.assert_close(alone.log_flow[0], together.log_flow[row])


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("size", [3, 6])
def test_heat_of_small_or_coinciding_nodes_is_finite(problem: str, size: int) -> None:
    """Sizes below k, and all points equal, have a heat of every edge there is."""
    demand = None if problem == "tsp" else torch.tensor([[0] + [5] * (size - 1)])
    capacity = None if problem == "tsp" else torch.tensor([5])
    batch = InstanceBatch(torch.full((1, size, 2), 0.5), demand, capacity)
    heat = heat_of(HeatNetwork(problem, depth=1, width=4).eval(), batch, 10)
    assert heat.heat.shape == (1, size, size - 1 - (problem == "cvrp"))
    assert bool(torch.isfinite(heat.heat).all())


def test_a_network_sees_its_own_problem_only() -> None:
    """A TSP shown to a CVRP's network is refused."""
    with pytest.raises(ValueError, match="network for cvrp cannot see a tsp"):
        heat_of(HeatNetwork("cvrp", 1, 4), InstanceBatch(torch.rand(1, 5, 2)), 2)


def test_neighbours_are_a_share_of_the_nodes_and_at_least_five() -> None:
    """As published for large instances; small ones have five, or all."""
    assert [nearest_count(size, 10) for size in (1000, 100, 30, 4)] == [100, 10, 5, 3]


def test_a_released_folder_holds_the_same_network(shared: Path, tmp_path: Path) -> None:
    """Saved and loaded again, weights, model and graphs stay."""
    trained = published(shared, "hbg_agfn_tsp")
    trained.save(tmp_path / "weights", source="a test")
    again = load_heat(tmp_path / "weights", problem="tsp", model="agfn")
    assert (again.model, again.sparsity, again.network.options) == ("agfn", 10, trained.network.options)
    batch = instance(shared, "tsp")
    assert torch.equal(heat_of(again.network, batch, K).heat, heat_of(trained.network, batch, K).heat)


def test_published_weights_are_converted_by_command(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``nco convert --weights`` tells the model by the tensors' names, and writes a folder that loads."""
    source = shared / "parity" / "hbg_agfn_tsp_weights.safetensors"
    assert main(["convert", "--weights", str(source), str(tmp_path / "weights")]) == 0
    assert "agfn for the TSP, 69,379 parameters" in capsys.readouterr().out
    assert load_heat(tmp_path / "weights").model == "agfn"


def test_what_does_not_fit_is_named(shared: Path, tmp_path: Path) -> None:
    """Another problem or model, a missing tensor, one too many, and tensors of something else."""
    path = shared / "parity" / "gfacs_tsp200_weights.safetensors"
    with pytest.raises(CheckpointError, match="trained for tsp, not for cvrp"):
        load_heat(path, problem="cvrp")
    with pytest.raises(CheckpointError, match="of gfacs, not of agfn"):
        load_heat(path, model="agfn")
    tensors = load_file(path)
    lacking = {name: tensor for name, tensor in tensors.items() if name != "Z_net.0.bias"}
    with pytest.raises(CheckpointError, match=r"log_z\.0\.bias.*missing"):
        from_authors(lacking, path)
    with pytest.raises(CheckpointError, match=r"strange.*not of this model"):
        from_authors({**tensors, "strange.weight": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="no checkpoint of GFACS"):
        from_authors({"weight": torch.zeros(1)}, path)
