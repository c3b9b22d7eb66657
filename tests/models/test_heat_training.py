"""The trainings of GFACS and AGFN."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

import nco
from nco.errors import UsageError
from nco.models.agfn.module import AgfnModule
from nco.models.fresh import FreshInstances, FreshStream
from nco.models.gfacs.module import GfacsModule
from nco.models.heat_pretrained import load_heat
from nco.models.schedules import cosine, linear, logarithmic
from nco.trainers.cli import TrainingCLI, train

RECIPE = """
seed_everything: 1
model:
  class_path: nco.models.{model}.module.{module}
  init_args:
    {{problem: {problem}, depth: 1, width: 4, ants: 3, epoch_steps: 2, perturbations: 1, validation_ants: 2{options}}}
data:
  class_path: nco.models.fresh.FreshInstances
  init_args:
    {{problem: {problem}, size: 8{capacity}, batch_size: 2, validation_instances: 2, seed: 3}}
checkpoint:
  monitor: val_cost
trainer:
  default_root_dir: {root}
  accelerator: cpu
  devices: 1
  max_steps: 12
  val_check_interval: 4
  check_val_every_n_epoch: null
  log_every_n_steps: 1
"""
MODULES = {"gfacs": "GfacsModule", "agfn": "AgfnModule"}


def recipe(folder: Path, model: str, problem: str, options: str = "") -> Path:
    """Write the recipe of a run in the folder ``run`` beside it."""
    path = folder / "tiny.yaml"
    capacity = ", capacity: 20" if problem == "cvrp" else ""
    names = {"model": model, "module": MODULES[model], "problem": problem, "options": options, "capacity": capacity}
    path.write_text(RECIPE.format(root=folder / "run", **names))
    return path


class StopBefore(pl.Callback):
    """Ends a training before a batch."""

    def __init__(self, batch: int):
        self.left = batch

    def on_train_batch_start(self, *args: Any, **kwargs: Any) -> None:
        """Count down."""
        if self.left == 0:
            raise RuntimeError("stopped")
        self.left -= 1


def final_state(root: Path) -> dict[str, Any]:
    """Return weights and optimiser states, by flat names."""
    checkpoint = torch.load(root / "last.ckpt", weights_only=True)
    states = dict(checkpoint["state_dict"])
    for number, optimiser in enumerate(checkpoint["optimizer_states"]):
        for place, entries in optimiser["state"].items():
            states |= {f"{number}.{place}.{name}": value for name, value in entries.items()}
    return states


@pytest.mark.parametrize(("model", "problem"), [("gfacs", "cvrp"), ("agfn", "tsp")])
def test_a_stopped_run_goes_on_as_if_unbroken(tmp_path: Path, model: str, problem: str) -> None:
    """Stopped between two checkpoints and resumed, a run ends with the same weights and moments, bit for bit."""
    path = recipe(tmp_path, model, problem)
    train(str(path), ["--trainer.default_root_dir", str(tmp_path / "unbroken")])
    cli = TrainingCLI(["--config", str(path)])
    cli.trainer.callbacks.insert(0, StopBefore(6))
    with pytest.raises(RuntimeError, match="stopped"):
        cli.fit()
    train(str(path), ["--ckpt_path", "last"])
    found, wanted = final_state(tmp_path / "run"), final_state(tmp_path / "unbroken")
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize(("model", "problem"), [("gfacs", "tsp"), ("agfn", "cvrp")])
@pytest.mark.parametrize("balance", ["tb", "db", "hybrid"])
def test_training_moves_all_weights_it_should(tmp_path: Path, model: str, problem: str, balance: str) -> None:
    """Heat, log Z and, beyond trajectory balance, log-flow; of AGFN the discriminator too. The checkpoint loads."""
    path = recipe(tmp_path, model, problem, f", balance: {balance}, backward: paper")
    cli = TrainingCLI(["--config", str(path)])
    before = {name: value.clone() for name, value in cli.model.named_parameters()}
    cli.fit()
    still = {name for name, value in cli.model.named_parameters() if torch.equal(value, before[name])}
    # What the heads do not read of the last layer's nodes, and the discriminator's log Z.
    unused = {name for name in before if name.startswith("discriminator.log_z")}
    last = "graph.layers.0.node"
    allowed = unused | {name for name in before if last in name or "graph.layers.0.message" in name}
    assert still <= (allowed if balance == "tb" or model == "agfn" else unused)
    trained = load_heat(cli.root / "last.ckpt", problem, model)
    assert trained.network.options["node_flow"] == (balance != "tb")
    for name, value in trained.network.state_dict().items():
        assert torch.equal(value, cli.model.network.state_dict()[name])


def test_training_starts_from_other_weights(tmp_path: Path) -> None:
    """A run begins with the weights that it is given, and refuses those of other options."""
    first = recipe(tmp_path, "gfacs", "tsp")
    cli = train(str(first))
    checkpoint = cli.root / "last.ckpt"
    second = ["--trainer.default_root_dir", str(tmp_path / "second"), "--model.start_from", str(checkpoint)]
    again = TrainingCLI(["--config", str(first), *second])
    again.trainer.callbacks.insert(0, StopBefore(0))
    with pytest.raises(RuntimeError, match="stopped"):
        again.fit()
    wanted = load_heat(checkpoint).network.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in again.model.network.state_dict().items())
    with pytest.raises(UsageError, match="a network of other options"):
        train(str(first), [*second, "--model.width", "8"])


def test_a_stream_is_the_same_from_any_batch_on() -> None:
    """Batch 3 of a stream is the first of one that has consumed three."""
    data = FreshInstances("cvrp", 6, 20, batch_size=2)
    whole = list(islice(FreshStream(data.generator, 2, (5, 0)), 5))
    rest = list(islice(FreshStream(data.generator, 2, (5, 0), lambda: 3), 2))
    for one, other in zip(whole[3:], rest, strict=True):
        assert (one.number, one.seed) == (other.number, other.seed)
        assert torch.equal(one.instances.coords, other.instances.coords)
        assert one.rng().random() == other.rng().random()
    assert not torch.equal(whole[0].instances.coords, whole[1].instances.coords)


def test_schedules_follow_the_papers() -> None:
    """Beta rises with the logarithm of the epoch up to the fifth last; weights are linear, rates half a cosine."""
    assert logarithmic(200, 1000, 1, 50) == 200
    assert logarithmic(200, 1000, 45, 50) == logarithmic(200, 1000, 50, 50) == 1000
    assert logarithmic(0, 1, 9, 86) == pytest.approx(0.5)
    assert linear(0.5, 0.99, 1, 50) == 0.5
    assert linear(0.0, 1.0, 10, 50) == pytest.approx(0.2)
    assert linear(1.0, 0.0, 50, 50) == 0.0
    assert logarithmic(1, 2, 1, 3) == linear(1, 2, 1, 3) == 2  # too few epochs for a rise
    assert [cosine(step, 10, 0.1) for step in (0, 5, 10)] == pytest.approx([1.0, 0.55, 0.1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GfacsModule(problem="tsp", balance="all"), "unknown balance 'all'"),
        (lambda: GfacsModule(problem="vrp"), "unknown problem 'vrp'"),
        (lambda: GfacsModule(problem="tsp", ants=1), "ants must be at least 2"),
        (lambda: GfacsModule(problem="tsp", ants=4, searched_ants=5), "between 2 and the 4 ants"),
        (lambda: AgfnModule(problem="tsp", epoch_steps=0), "epoch_steps must be at least 1"),
        (lambda: FreshInstances("tsp", 10, capacity=5), "a TSP has no capacity"),
        (lambda: FreshInstances("cvrp", 123), "no customary capacity"),
        (lambda: FreshInstances("tsp", 10, batch_size=0), "batch_size must be at least 1"),
    ],
)
def test_wrong_options_are_named(build: Any, message: str) -> None:
    """Each is one clear error."""
    with pytest.raises(UsageError, match=message):
        build()


def test_instances_must_be_of_the_network_s_problem(tmp_path: Path) -> None:
    """A CVRP's network on TSPs is refused before the first step."""
    path = recipe(tmp_path, "gfacs", "tsp")
    with pytest.raises(UsageError, match="instances are of a tsp, the network is for a cvrp"):
        train(str(path), ["--model.problem", "cvrp"])


@pytest.mark.parametrize("path", sorted(nco.shelf("trainers").glob("hbg-*.yaml")), ids=lambda path: path.stem)
def test_recipes_build_networks_of_the_published_sizes(path: Path, tmp_path: Path) -> None:
    """Each recipe is valid, and its network loads what the recipe it starts from has trained."""
    cli = TrainingCLI(
        ["--config", str(path), "--trainer.default_root_dir", str(tmp_path), "--trainer.accelerator", "cpu"]
    )
    sizes = {"hbg-gfacs-tsp": 69_445, "hbg-gfacs-cvrp": 69_413, "hbg-agfn-tsp": 69_379, "hbg-agfn-cvrp": 353_987}
    wanted = next(size for name, size in sizes.items() if path.stem.startswith(name))
    assert sum(parameter.numel() for parameter in cli.model.network.parameters()) == wanted
    assert cli.datamodule.hparams["problem"] == cli.model.network.problem
    assert np.isfinite(cli.trainer.max_steps)
