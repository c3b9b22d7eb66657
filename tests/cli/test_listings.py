"""``nco info`` and ``nco models``."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import nco
from nco.cli import main


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Put one model on an empty shelf."""
    monkeypatch.setattr(nco, "shelf", lambda name: tmp_path / name)
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    save_file({"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.float32)}, folder / "weights.safetensors")
    (folder / "config.yaml").write_text("model: l2c-insert\nproblem: tsp\nnetwork: {}\n")
    (folder / "CARD.md").write_text("\n# A tiny model\n\nMore.\n")
    (tmp_path / "models" / "README.md").write_text("not a model")
    return folder


def test_models(models, capsys):
    """A model has a line with its parameters and the first line of its card."""
    assert main(["models"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "name  model       problem  about         parameters",
        "tiny  l2c-insert  tsp      A tiny model          10",
    ]


def test_models_as_json(models, capsys):
    """One object a line; a missing card is said."""
    (models / "CARD.md").unlink()
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "tiny",
        "model": "l2c-insert",
        "problem": "tsp",
        "about": "no card",
        "parameters": 10,
    }


def test_broken_weights_are_named(models, capsys):
    """A broken file is one line and exit code 2."""
    (models / "weights.safetensors").write_bytes(b"no tensors")
    assert main(["models"]) == 2
    assert "tiny/weights.safetensors" in capsys.readouterr().err


@pytest.mark.usefixtures("fakes")
def test_info(capsys):
    """Versions, devices, and for each solver whether it is available or why not."""
    assert main(["info", "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["versions"]["nco"] == nco.__version__
    assert "cpu" in info["devices"]
    assert info["solvers"]["fake"] == {"available": True, "problems": ["tsp", "cvrp"], "state": "part of nco"}
    assert info["solvers"]["tsp-only"]["problems"] == ["tsp"]
    missing = info["solvers"]["unavailable"]
    assert (missing["available"], missing["state"]) == (False, "needs a package: pip install unavailable")


@pytest.mark.usefixtures("fakes")
def test_info_as_tables(capsys):
    """The same in lines."""
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["fake", "tsp,", "cvrp", "yes", "part", "of", "nco"] for line in lines)
