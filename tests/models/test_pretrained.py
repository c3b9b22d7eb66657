"""Weights in released folders and in checkpoints: what is loaded is what was saved, and damage is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from nco.cli import main
from nco.errors import CheckpointError
from nco.models.l2c_insert.network import InsertionNetwork
from nco.models.l2c_insert.pretrained import TrainedInsertion, from_authors, load_insertion
from nco.models.weights import CONFIG, WEIGHTS, find_weights, read_checkpoint
from nco.search.window import WindowRule

WINDOW = WindowRule(7, 5, show_full=True)
OPTIONS = {"dim": 8, "heads": 2, "head_dim": 4, "hidden": 8, "encoder_layers": 1, "decoder_layers": 2}


def network(problem: str = "cvrp") -> InsertionNetwork:
    """Return a small network."""
    return InsertionNetwork(problem, **OPTIONS, geometry=True, cost_prior=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of weights."""
    TrainedInsertion(network(), WINDOW, "some").save(tmp_path / "weights", training={"steps": 3})
    return tmp_path / "weights"


def same_tensors(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Compare all parameters bit for bit."""
    found, wanted = one.state_dict(), other.state_dict()
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in found)


def test_weights_come_back_as_they_were_saved(tmp_path: Path) -> None:
    """Network, window and name are the same, and the network is ready to be used."""
    saved = TrainedInsertion(network(), WINDOW, "some")
    saved.save(tmp_path / "some")
    loaded = load_insertion(tmp_path / "some", "cvrp")
    assert same_tensors(saved.network, loaded.network)
    assert loaded.network.options == saved.network.options
    assert (loaded.window, loaded.name) == (WINDOW, "some")
    assert not loaded.network.training
    assert not any(parameter.requires_grad for parameter in loaded.network.parameters())


def drop(tensors: dict) -> None:
    """Lose a tensor."""
    del tensors["score.bias"]


def add(tensors: dict) -> None:
    """Have one too many."""
    tensors["value.weight"] = torch.zeros(1)


def reshape(tensors: dict) -> None:
    """Change the shape of one."""
    tensors["score.weight"] = torch.zeros(1, 9)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (drop, "the tensor 'score.bias' is missing"),
        (add, "the tensor 'value.weight' is not of this model"),
        (reshape, r"the tensor 'score.weight' has the shape \[1, 9\], not \[1, 8\]"),
    ],
)
def test_weights_of_another_network_are_refused(folder: Path, change: Callable[[dict], None], reason: str) -> None:
    """The message names the tensor."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(CheckpointError, match=reason):
        load_insertion(folder)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("a: [", CONFIG),
        ("model: l2c-insert", "needs the keys model, problem and network"),
        ("{model: lehd, problem: tsp, network: {}}", "holds a lehd, not a l2c-insert"),
        ("{model: l2c-insert, problem: vrp, network: {}}", "unknown problem 'vrp'"),
        ("{model: l2c-insert, problem: tsp, network: {width: 3}}", "width"),
        ("{model: l2c-insert, problem: tsp, network: {}, window: {size: 3}}", "size"),
    ],
)
def test_broken_configurations_are_refused(folder: Path, config: str, reason: str) -> None:
    """The message says what is wrong."""
    (folder / CONFIG).write_text(config)
    with pytest.raises(CheckpointError, match=reason):
        load_insertion(folder)


def test_damaged_weights_are_refused(folder: Path) -> None:
    """A truncated file is named."""
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=WEIGHTS):
        load_insertion(folder)


def test_weights_for_another_problem_are_refused(folder: Path) -> None:
    """A CVRP network solves no TSP."""
    with pytest.raises(CheckpointError, match="trained for cvrp, not for tsp"):
        load_insertion(folder, "tsp")


def test_unknown_weights_are_refused() -> None:
    """Neither a folder nor a name on the shelf."""
    with pytest.raises(CheckpointError, match="no weights called 'nothing'"):
        find_weights("nothing")


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04"])
def test_damaged_checkpoints_are_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever PyTorch raises, it is an error of ours that names the file."""
    (tmp_path / "last.ckpt").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"last\.ckpt"):
        read_checkpoint(tmp_path / "last.ckpt")


@pytest.mark.parametrize(
    "content", [[1, 2], {"state_dict": {}}, {"epoch": 3}, {"state_dict": {}, "hyper_parameters": {"problem": "tsp"}}]
)
def test_checkpoints_of_something_else_are_refused(tmp_path: Path, content: object) -> None:
    """A file that PyTorch can read need not hold an insertion network."""
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(CheckpointError, match=r"other\.ckpt"):
        load_insertion(tmp_path / "other.ckpt")


def authors_tensors(shared: Path, problem: str) -> dict[str, torch.Tensor]:
    """Return weights with the published names."""
    return load_file(shared / "parity" / f"l2c_{problem}_weights.safetensors")


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_weights_with_the_authors_names_become_the_papers_network(shared: Path, problem: str) -> None:
    """Depth, widths and problem are read off the tensors; no tensor is left over."""
    tensors = authors_tensors(shared, problem)
    trained = from_authors(tensors, shared)
    assert trained.network.options == InsertionNetwork(problem).options
    assert trained.network.problem == problem
    queries = trained.network.decoder[8].qkv.weight[:128]
    assert torch.equal(queries, tensors["decoder.layers.8.Wq.weight"])


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("decoder.Linear_final.weight", None, "the tensor 'decoder.Linear_final.weight' is missing"),
        ("decoder.Linear_final.weight", torch.zeros(1, 5), "'score.weight' has the shape"),
        ("decoder.layers.3.Wk.weight", torch.zeros(128, 5), "Wq, Wk and Wv of decoder.layers.3 differ in shape"),
        ("decoder.other", torch.zeros(1), "'decoder.other' is not of this model"),
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
def test_convert_takes_the_authors_checkpoints(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """``nco convert --weights`` writes a folder that loads as the same network."""
    tensors = authors_tensors(shared, "cvrp")
    source = tmp_path / ("some.safetensors" if form == "safetensors" else "some.pt")
    if form == "safetensors":
        save_file(tensors, source)
    else:
        torch.save(tensors if "plain" in form else {"epoch": 3, "model_state_dict": tensors}, source)
    assert main(["convert", "--weights", str(source), str(tmp_path / "out")]) == 0
    assert "l2c-insert for the CVRP, 2,040,449 parameters" in capsys.readouterr().out
    assert same_tensors(load_insertion(tmp_path / "out").network, from_authors(tensors, source).network)
    assert yaml.safe_load((tmp_path / "out" / CONFIG).read_text())["window"]["order"] == "polar"


def test_convert_refuses_what_is_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and exit code 2, for a missing file and for options that belong to data."""
    assert main(["convert", "--weights", str(tmp_path / "no.ckpt"), str(tmp_path / "out")]) == 2
    assert main(["convert", "--weights", "--rounding", "nint", "a.ckpt", str(tmp_path / "out")]) == 2
    missing, rounding = capsys.readouterr().err.splitlines()
    assert "no.ckpt" in missing
    assert "--rounding" in rounding
    assert not (tmp_path / "out").exists()
