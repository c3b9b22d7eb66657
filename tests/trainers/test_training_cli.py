"""``nco train``: recipes, options that override them, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
import yaml

import nco
from nco.cli import main
from nco.models.l2c_insert.pretrained import load_insertion
from nco.trainers.cli import TrainingCLI, train

SHORT = ["--trainer.max_steps", "2", "--trainer.val_check_interval", "2"]


def test_a_run_leaves_checkpoints_a_log_and_its_recipe(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says what came of it; the saved recipe has the options; best and last can be loaded as networks."""
    assert main(["train", str(recipe), *SHORT, "--model.dim", "16"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{tmp_path / 'run'}: 2 steps, best val_gap_reconstruction")
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert files >= {"best.ckpt", "last.ckpt", "metrics.csv", "recipe.yaml", "tensorboard"}
    saved = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert saved["model"]["init_args"]["dim"] == 16
    assert saved["trainer"]["max_steps"] == 2
    for name in ("best.ckpt", "last.ckpt"):
        trained = load_insertion(tmp_path / "run" / name, "tsp")
        assert trained.network.options["dim"] == 16
        assert (trained.window.positions, trained.window.unvisited) == (6, 3)


class History(pl.Callback):
    """Keeps the weights after each step."""

    def __init__(self) -> None:
        self.weights: list[dict[str, torch.Tensor]] = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        """Copy the weights."""
        self.weights.append({name: value.clone() for name, value in pl_module.network.state_dict().items()})


def test_checkpoints_hold_the_averaged_weights_and_the_current_ones(recipe: Path) -> None:
    """The average starts with the first step's weights and takes a tenth of each later step's; networks load it."""
    run = TrainingCLI(["--config", str(recipe), "--trainer.max_steps", "4"])
    history = History()
    run.trainer.callbacks.append(history)
    run.fit()
    averaged = load_insertion(run.root / "last.ckpt").network.state_dict()
    current = torch.load(run.root / "last.ckpt", weights_only=True)["current_model_state"]
    for name, value in averaged.items():
        first, *later = (weights[name] for weights in history.weights)
        expected = first
        for weights in later:
            expected = 0.9 * expected + 0.1 * weights
        torch.testing.assert_close(value, expected)
        assert torch.equal(current[f"network.{name}"], later[-1])


@pytest.mark.parametrize(
    "options",
    [
        ["--trainer.precision", "bf16-mixed"],
        ["--trainer.accumulate_grad_batches", "2", "--trainer.gradient_clip_val", "0.5"],
        ["--model.decay", "exponential", "--data.augmentation", "square", "--data.hole_share", "1"],
    ],
)
def test_options_of_lightning_and_of_the_model_override(recipe: Path, options: list[str]) -> None:
    """Precision, accumulation, clipping and the model's own options need no other recipe."""
    run = train(str(recipe), [*SHORT, "--trainer.val_check_interval", "100", *options])
    assert run.trainer.global_step == 2
    assert torch.load(run.root / "last.ckpt", weights_only=True)["global_step"] == 2


def test_the_thread_count_is_an_option(recipe: Path) -> None:
    """It holds for the whole process."""
    before = torch.get_num_threads()
    try:
        TrainingCLI(["--config", str(recipe), "--threads", "3"])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("path", sorted(nco.shelf("trainers").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_on_the_shelf_can_be_built(path: Path, tmp_path: Path) -> None:
    """By its name, without labels and GPU; the problem, the run's folder and the labels, if it has any, go together."""
    text = path.read_text()
    problem = "cvrp" if "cvrp" in path.stem else "tsp"
    options = ["--trainer.accelerator", "cpu", "--trainer.default_root_dir", str(tmp_path)]
    run = TrainingCLI(["--config", str(path), *options])
    assert run.model.network.problem == problem
    assert all(f"$NCO_LABELS/{problem}" in labels for labels in run.datamodule.hparams.get("labels", []))
    assert f"default_root_dir: runs/{path.stem}\n" in text
    assert run.trainer.max_steps % run.trainer.val_check_interval == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--model.dim", "x"], 'Parser key "dim"'),
        (["--model.width", "3"], "'width' is not accepted"),
        (["--model.decay", "linear"], "unknown decay 'linear'"),
        (["--model.window_scaling", "log"], "unknown window scaling 'log'"),
        (["--model.problem", "cvrp"], "the labels are of a tsp, the network is for a cvrp"),
        (["--data.labels", "[nowhere.npz]"], "no labels at nowhere.npz"),
        (["--data.labels", "[$NCO_NOT_SET/tsp.npz]"], "$NCO_NOT_SET/tsp.npz: the environment variable is not set"),
        (["--data.validation", "30"], "30 validation rows cannot be taken from a set of 30"),
        (["--data.validation_instances", "0"], "val_gap_reconstruction"),
        (["--trainer.precision", "7"], "trainer.precision"),
        (["--trainer.accelerator", "abacus"], "abacus"),
        (["--trainer.max_steps", "-1", "--trainer.max_epochs", "-1"], "trainer.max_steps, which must be set"),
        (["--trainer.default_root_dir", "null"], "trainer.default_root_dir is not set"),
        (["--ckpt_path", "nowhere.ckpt"], "no checkpoint at nowhere.ckpt"),
        (["--seconds", "-1"], "seconds"),
        (["stray"], "stray"),
    ],
)
def test_wrong_options_are_one_line_and_exit_code_2(
    recipe: Path, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    """The line names what is wrong."""
    capsys.readouterr()
    assert main(["train", str(recipe), *options]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("nco: error: ")
    assert reason in line


@pytest.mark.parametrize("content", ["model: [1,", "hello: 3", "just text", "model: {class_path: nco.nothing.Model}"])
def test_broken_recipes_are_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    """A recipe that is no YAML, has unknown keys or names what there is not."""
    (tmp_path / "broken.yaml").write_text(content)
    assert main(["train", str(tmp_path / "broken.yaml")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("nco: error: ")


def test_unknown_recipes_are_answered_with_the_shelf(capsys: pytest.CaptureFixture[str]) -> None:
    """The line lists the names."""
    assert main(["train", "nothing"]) == 2
    assert "l2c-insert-tsp-small" in capsys.readouterr().err


def test_checkpoints_that_do_not_fit_are_refused(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged one, and one of a larger network."""
    run = train(str(recipe), [*SHORT, "--model.dim", "16"])
    capsys.readouterr()
    assert main(["train", str(recipe), "--ckpt_path", "last"]) == 2
    assert "last.ckpt: the tensor 'network." in capsys.readouterr().err
    shutil.copy(run.root / "metrics.csv", run.root / "last.ckpt")
    assert main(["train", str(recipe), "--ckpt_path", "last"]) == 2
    assert "last.ckpt: cannot be read as a checkpoint" in capsys.readouterr().err


def test_a_run_that_is_to_fit_into_a_time_cannot_be_resumed_into_another(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its schedule is fixed; the saved recipe has it."""
    train(str(recipe), SHORT)
    capsys.readouterr()
    assert main(["train", str(recipe), "--ckpt_path", "last", "--seconds", "5"]) == 2
    assert "recipe.yaml, without --seconds" in capsys.readouterr().err


def test_a_run_is_not_overwritten_by_another(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a word about resuming, a folder that holds a run is refused."""
    train(str(recipe), SHORT)
    capsys.readouterr()
    assert main(["train", str(recipe), *SHORT]) == 2
    assert "--ckpt_path last goes on with it" in capsys.readouterr().err
