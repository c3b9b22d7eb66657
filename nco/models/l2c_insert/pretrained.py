"""Trained insertion networks: from released folders, from training checkpoints, from the authors' checkpoints."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from nco.errors import CheckpointError
from nco.models.l2c_insert.network import InsertionNetwork
from nco.models.published import PublishedTensors, published_tensors
from nco.models.weights import (
    CHECKPOINTS,
    find_weights,
    load_tensors,
    load_weights,
    read_checkpoint,
    read_config,
    read_tensors,
    save_weights,
)
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
    """Load a network.

    Parameters
    ----------
    source : path-like
        The name of released weights, a folder with weights, a checkpoint of a training (the averaged weights, where it
        has averaged), or a checkpoint of the published code (``.pt`` or ``.safetensors``, see :func:`from_authors`).
    problem : {"tsp", "cvrp"}, optional
        What it must have been trained for.

    Raises
    ------
    CheckpointError
        If it is none of them, damaged, of another model or trained for another problem.
    """
    path = Path(source)
    if path.suffix == ".safetensors":
        trained = from_authors(read_tensors(path), path)
    elif path.suffix in CHECKPOINTS:
        trained = _from_checkpoint(read_checkpoint(path), path)
    else:
        trained = _from_folder(find_weights(source))
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


def _from_checkpoint(checkpoint: dict[str, Any], path: Path) -> TrainedInsertion:
    """Tell a training's checkpoint from the published code's, by its keys."""
    if "state_dict" in checkpoint:
        return _from_training(checkpoint, path)
    return from_authors(published_tensors(checkpoint, path), path)


def _from_training(checkpoint: dict[str, Any], path: Path) -> TrainedInsertion:
    known = inspect.signature(InsertionNetwork).parameters
    try:
        options = {name: value for name, value in checkpoint["hyper_parameters"].items() if name in known}
        data = checkpoint["datamodule_hyper_parameters"]
        window = WindowRule(positions=data["positions"], unvisited=data["unvisited"])
        network = InsertionNetwork(**options)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: is no checkpoint of an insertion network's training ({type(error).__name__}: {error})"
        ) from error
    # Lightning's weight averaging puts the averaged weights where others look for the weights.
    tensors = {name.removeprefix("network."): tensor for name, tensor in checkpoint["state_dict"].items()}
    load_tensors(network, tensors, path)
    return TrainedInsertion(network, window, path.stem)


_EMBEDDINGS = {
    "embed": "encoder.embedding",
    "embed_current": "decoder.embedding_last_node",
    "embed_unvisited": "decoder.embedding_scatter_node",
    "score": "decoder.Linear_final",
}
_POSITIONS = {"tsp": "decoder.embedding_partial_node", "cvrp": "decoder.embedding_edge"}


def from_authors(tensors: dict[str, Tensor], source: Path) -> TrainedInsertion:
    """Turn a state dict with the parameter names of the published code into a network.

    The problem is read off the names: only the CVRP's has ``decoder.embedding_edge``.

    Raises
    ------
    CheckpointError
        If a tensor is missing, has the wrong shape or has no place in the network.
    """
    problem = "cvrp" if f"{_POSITIONS['cvrp']}.weight" in tensors else "tsp"
    published = PublishedTensors(tensors, source)
    for ours, theirs in {**_EMBEDDINGS, "embed_position": _POSITIONS[problem]}.items():
        published.rename(ours, theirs)
    network = InsertionNetwork(problem, **published.options())
    load_tensors(network, published.renamed, source)
    network.eval().requires_grad_(False)
    kept = 200 if problem == "cvrp" else 100
    window = WindowRule(kept, kept, "polar" if problem == "cvrp" else "nearest", show_full=True)
    return TrainedInsertion(network, window, source.stem)
