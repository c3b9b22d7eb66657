"""Trained insertion networks: from released folders, from training checkpoints, from the authors' checkpoints."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nco.errors import CheckpointError
from nco.models.l2c_insert.network import InsertionNetwork
from nco.models.weights import find_weights, load_tensors, load_weights, read_config, save_weights
from nco.search.window import WindowRule

MODEL = "l2c-insert"


@dataclass(frozen=True)
class TrainedInsertion:
    """A network and the window that it was trained with.

    Attributes
    ----------
    network : InsertionNetwork
        In evaluation mode.
    window : WindowRule
    name : str
    """

    network: InsertionNetwork
    window: WindowRule
    name: str

    def save(self, folder: Path, **notes: Any) -> None:
        """Write the weights as a released folder; the notes go into its configuration."""
        config = {
            "model": MODEL,
            "problem": self.network.problem,
            "network": self.network.options,
            "window": asdict(self.window),
            **notes,
        }
        save_weights(self.network, config, folder)


def load_insertion(source: str | Path, problem: str | None = None) -> TrainedInsertion:
    """Load a network by a released folder's name, a folder's path or a training checkpoint (.ckpt).

    Raises
    ------
    CheckpointError
        If it is none of them, damaged, of another model or trained for another problem.
    """
    path = Path(source)
    trained = _from_checkpoint(path) if path.suffix == ".ckpt" else _from_folder(find_weights(source))
    if problem is not None and trained.network.problem != problem:
        raise CheckpointError(f"{source}: trained for {trained.network.problem}, not for {problem}")
    trained.network.eval().requires_grad_(False)
    return trained


def _from_folder(folder: Path) -> TrainedInsertion:
    config = read_config(folder)
    if config["model"] != MODEL:
        raise CheckpointError(f"{folder}: holds a {config['model']}, not a {MODEL}")
    try:
        network = InsertionNetwork(config["problem"], **config["network"])
        window = WindowRule(**config.get("window", {}))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{folder}: {error}") from error
    load_weights(network, folder)
    return TrainedInsertion(network, window, folder.name)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint that holds nothing but tensors and plain values.

    Raises
    ------
    CheckpointError
    """
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises a different type for every kind of damage
        raise CheckpointError(f"{path}: cannot be read as a checkpoint ({type(error).__name__}: {error})") from error
    if not isinstance(checkpoint, dict):
        raise CheckpointError(f"{path}: holds a {type(checkpoint).__name__}, not a checkpoint")
    return checkpoint


def _from_checkpoint(path: Path) -> TrainedInsertion:
    checkpoint = read_checkpoint(path)
    try:
        options = checkpoint["hyper_parameters"]
        tensors = checkpoint["state_dict"]
        data = checkpoint["datamodule_hyper_parameters"]
        window = WindowRule(positions=data["positions"], unvisited=data["unvisited"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: is no training checkpoint of an insertion network ({error})") from error
    known = inspect.signature(InsertionNetwork).parameters
    network = InsertionNetwork(**{name: value for name, value in options.items() if name in known})
    prefix = "network."
    load_tensors(network, {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}, path)
    return TrainedInsertion(network, window, path.stem)


def from_authors(tensors: dict[str, Tensor], source: Path) -> TrainedInsertion:
    """Turn a state dict with the parameter names of the published code into a network.

    The problem is read off the names: only the CVRP's has ``decoder.embedding_edge``.

    Raises
    ------
    CheckpointError
        If a tensor is missing or has the wrong shape.
    """
    problem = "cvrp" if "decoder.embedding_edge.weight" in tensors else "tsp"
    position = "embedding_edge" if problem == "cvrp" else "embedding_partial_node"
    renamed: dict[str, Tensor] = {}
    for ours, theirs in (
        ("embed", "encoder.embedding"),
        ("embed_current", "decoder.embedding_last_node"),
        ("embed_unvisited", "decoder.embedding_scatter_node"),
        ("embed_position", f"decoder.{position}"),
        ("score", "decoder.Linear_final"),
    ):
        for part in ("weight", "bias"):
            renamed[f"{ours}.{part}"] = _tensor(tensors, f"{theirs}.{part}", source)
    depth = {stack: _depth(tensors, stack) for stack in ("encoder", "decoder")}
    for stack, layers in depth.items():
        for number in range(layers):
            ours, theirs = f"{stack}.{number}", f"{stack}.layers.{number}"
            parts = [_tensor(tensors, f"{theirs}.W{part}.weight", source) for part in "qkv"]
            renamed[f"{ours}.qkv.weight"] = torch.cat(parts)
            for block, name in (
                ("combine", "multi_head_combine"),
                ("expand", "feedForward.W1"),
                ("contract", "feedForward.W2"),
            ):
                for part in ("weight", "bias"):
                    renamed[f"{ours}.{block}.{part}"] = _tensor(tensors, f"{theirs}.{name}.{part}", source)
    dim = renamed["embed.weight"].shape[0]
    # The published code has 8 heads, which no shape reveals.
    heads = 8
    network = InsertionNetwork(
        problem,
        dim,
        heads,
        renamed["decoder.0.qkv.weight"].shape[0] // 3 // heads,
        renamed["decoder.0.expand.weight"].shape[0],
        depth["encoder"],
        depth["decoder"],
    )
    load_tensors(network, renamed, source)
    network.eval().requires_grad_(False)
    kept = 200 if problem == "cvrp" else 100
    window = WindowRule(kept, kept, "polar" if problem == "cvrp" else "nearest", show_full=True)
    return TrainedInsertion(network, window, source.stem)


def _tensor(tensors: dict[str, Tensor], name: str, source: Path) -> Tensor:
    if name not in tensors:
        raise CheckpointError(f"{source}: the tensor {name!r} is missing")
    return tensors[name]


def _depth(tensors: dict[str, Tensor], stack: str) -> int:
    numbers = {int(name.split(".")[2]) for name in tensors if name.startswith(f"{stack}.layers.")}
    return len(numbers)
