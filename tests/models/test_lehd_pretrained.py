"""LEHD's weights in released folders and in checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from nco.cli import main
from nco.errors import CheckpointError
from nco.models.l2c_insert.pretrained import load_insertion
from nco.models.lehd.network import LehdNetwork
from nco.models.lehd.pretrained import TrainedLehd, from_authors, load_lehd
from nco.models.weights import CONFIG

OPTIONS = {"dim": 8, "heads": 2, "head_dim": 4, "hidden": 8, "encoder_layers": 0, "decoder_layers": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of weights."""
    network = LehdNetwork("cvrp", **OPTIONS, window_scaling="isotropic", softened=True, cost_prior=True)
    TrainedLehd(network, 7, "some").save(tmp_path / "some", training={"steps": 3})
    return tmp_path / "some"


def same_tensors(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Compare all parameters bit for bit."""
    found, wanted = one.state_dict(), other.state_dict()
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in found)


def test_weights_come_back_as_they_were_saved(tmp_path: Path) -> None:
    """Network, number of candidates and name are the same, and the network is ready to be used."""
    saved = TrainedLehd(LehdNetwork("cvrp", **OPTIONS, window_scaling="centred", geometry=True), 7, "some")
    saved.save(tmp_path / "some")
    loaded = load_lehd(tmp_path / "some", "cvrp")
    assert same_tensors(saved.network, loaded.network)
    assert loaded.network.options == saved.network.options
    assert (loaded.k, loaded.name) == (7, "some")
    assert not loaded.network.training
    assert not any(parameter.requires_grad for parameter in loaded.network.parameters())


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{model: l2c-insert, problem: tsp, network: {}}", "holds a l2c-insert, not a lehd"),
        ("{model: lehd, problem: vrp, network: {}, k: 3}", "unknown problem 'vrp'"),
        ("{model: lehd, problem: tsp, network: {width: 3}, k: 3}", "width"),
        ("{model: lehd, problem: tsp, network: {}}", "k"),
    ],
)
def test_broken_configurations_are_refused(folder: Path, config: str, reason: str) -> None:
    """The message says what is wrong."""
    (folder / CONFIG).write_text(config)
    with pytest.raises(CheckpointError, match=reason):
        load_lehd(folder)


def test_weights_for_another_problem_are_refused(folder: Path) -> None:
    """A CVRP network solves no TSP."""
    with pytest.raises(CheckpointError, match="trained for cvrp, not for tsp"):
        load_lehd(folder, "tsp")


@pytest.mark.parametrize("content", [{"state_dict": {}}, {"epoch": 3}, {"state_dict": {}, "hyper_parameters": {}}])
def test_checkpoints_of_something_else_are_refused(tmp_path: Path, content: object) -> None:
    """A file that PyTorch can read need not hold a LEHD network."""
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(CheckpointError, match=r"other\.ckpt"):
        load_lehd(tmp_path / "other.ckpt")


def authors_tensors(shared: Path, problem: str, model: str = "lehd") -> dict[str, torch.Tensor]:
    """Return weights with the published names."""
    return load_file(shared / "parity" / f"{model}_{problem}_weights.safetensors")


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_weights_with_the_authors_names_become_the_papers_network(shared: Path, problem: str) -> None:
    """Depth, widths and problem are read off the tensors; only the unused map is left out."""
    trained = from_authors(authors_tensors(shared, problem), shared)
    assert trained.network.options == LehdNetwork(problem).options
    assert trained.network.problem == problem


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("decoder.embedding_last_node.bias", None, "the tensor 'decoder.embedding_last_node.bias' is missing"),
        ("decoder.Linear_final.weight", torch.zeros(1, 5), "'score.weight' has the shape"),
        ("decoder.k_2.weight", torch.zeros(1), "'decoder.k_2.weight' is not of this model"),
    ],
)
def test_incomplete_authors_weights_are_refused(
    shared: Path, name: str, value: torch.Tensor | None, reason: str
) -> None:
    """The message names the tensor."""
    tensors = authors_tensors(shared, "tsp")
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    with pytest.raises(CheckpointError, match=reason):
        from_authors(tensors, shared)


@pytest.mark.parametrize("form", ["file of the release", "plain state dict", "safetensors"])
@pytest.mark.parametrize("model", ["lehd", "l2c"])
def test_convert_tells_models_by_the_names_of_their_tensors(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, model: str
) -> None:
    """``nco convert --weights`` writes a folder of the right model, from every form of checkpoint."""
    tensors = authors_tensors(shared, "tsp", model)
    source = tmp_path / ("some.safetensors" if form == "safetensors" else "some.pt")
    if form == "safetensors":
        save_file(tensors, source)
    else:
        torch.save(tensors if "plain" in form else {"epoch": 150, "model_state_dict": tensors}, source)
    assert main(["convert", "--weights", str(source), str(tmp_path / "out")]) == 0
    said, written = capsys.readouterr().out, yaml.safe_load((tmp_path / "out" / CONFIG).read_text())
    if model == "lehd":
        assert "lehd for the TSP, 1,415,169 parameters" in said
        assert (written["model"], written["k"]) == ("lehd", 100)
        assert same_tensors(load_lehd(tmp_path / "out").network, from_authors(tensors, source).network)
    else:
        assert "l2c-insert for the TSP, 2,040,193 parameters" in said
        assert load_insertion(tmp_path / "out").network.problem == "tsp"
