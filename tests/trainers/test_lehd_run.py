"""Runs of LEHD, and runs that start from given weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nco.cli import main
from nco.models.l2c_insert.pretrained import load_insertion
from nco.models.lehd.pretrained import load_lehd
from nco.trainers.cli import TrainingCLI, train

SHORT = ["--trainer.max_steps", "2", "--trainer.val_check_interval", "2"]


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Compare all parameters bit for bit."""
    found, wanted = one.state_dict(), other.state_dict()
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in found)


def test_a_run_leaves_networks_that_can_be_loaded_and_converted(lehd_recipe: Path, tmp_path: Path) -> None:
    """Best and last have the options of the recipe, and become a folder of weights."""
    run = train(str(lehd_recipe), SHORT)
    assert {"val_loss_segment", "val_accuracy_whole", "val_gap_greedy"} <= run.trainer.callback_metrics.keys()
    for name in ("best.ckpt", "last.ckpt"):
        trained = load_lehd(run.root / name, "tsp")
        assert (trained.k, trained.network.options["dim"], trained.network.window_scaling) == (5, 8, "isotropic")
    assert main(["convert", "--weights", str(run.root / "last.ckpt"), str(tmp_path / "weights")]) == 0
    assert same(load_lehd(tmp_path / "weights").network, load_lehd(run.root / "last.ckpt").network)


@pytest.mark.parametrize(("kind", "load"), [("recipe", load_insertion), ("lehd_recipe", load_lehd)])
def test_a_run_can_start_from_given_weights(request: pytest.FixtureRequest, tmp_path: Path, kind: str, load) -> None:  # type: ignore[no-untyped-def]
    """At a learning rate of zero it ends with them."""
    recipe = str(request.getfixturevalue(kind))
    first = train(recipe, SHORT).root / "last.ckpt"
    options = [*SHORT, "--trainer.default_root_dir", str(tmp_path / "second"), "--model.start_from", str(first)]
    second = train(recipe, [*options, "--model.learning_rate", "0", "--model.weight_decay", "0"])
    torch.testing.assert_close(
        load(second.root / "last.ckpt").network.state_dict(), load(first).network.state_dict(), atol=1e-7, rtol=1e-5
    )


def test_weights_of_other_options_are_no_start(lehd_recipe: Path, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    """The line names the weights and their options."""
    first = train(str(lehd_recipe), SHORT).root / "last.ckpt"
    options = ["--trainer.default_root_dir", str(tmp_path / "second"), "--model.start_from", str(first)]
    capsys.readouterr()
    assert main(["train", str(lehd_recipe), *SHORT, *options, "--model.dim", "16"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "last.ckpt: a network of other options" in line
    assert "'dim': 8" in line


def test_a_recipe_with_missing_start_weights_can_be_read(lehd_recipe: Path, tmp_path: Path) -> None:
    """They are needed when training starts, not to build the model."""
    run = TrainingCLI(["--config", str(lehd_recipe), "--model.start_from", str(tmp_path / "nothing.ckpt")])
    assert run.model.hparams["start_from"] == str(tmp_path / "nothing.ckpt")
