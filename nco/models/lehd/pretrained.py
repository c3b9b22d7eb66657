"""Trained LEHD networks: from released folders, from training checkpoints, from the authors' checkpoints."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from nco.errors import CheckpointError
from nco.models.lehd.network import LehdNetwork
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

MODEL = "lehd"
# Names of tensors that only this model has: in a training's checkpoint, and in a published one.
TELLING_NAMES = frozenset({"network.embed_first.weight", "decoder.embedding_first_node.weight"})
# Candidates of a decision where the authors' weights decode large instances (TTPL, section 4).
AUTHORS_K = 100


@dataclass(frozen=True)
class TrainedLehd:
    """A network and the candidates that it was trained with.

    Attributes
    ----------
    network : LehdNetwork
        In evaluation mode.
    k : int
        How many of the unvisited nodes nearest to the last node it chooses from.
    name : str
    """

    network: LehdNetwork
    k: int
    name: str

    def save(self, folder: Path, **notes: Any) -> None:
        """Write the weights as a released folder; the notes go into its configuration."""
        config = {
            "model": MODEL,
            "problem": self.network.problem,
            "network": self.network.options,
            "k": self.k,
            **notes,
        }
        save_weights(self.network, config, folder)


def load_lehd(source: str | Path, problem: str | None = None) -> TrainedLehd:
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
        checkpoint = read_checkpoint(path)
        is_training = "state_dict" in checkpoint
        trained = (
            _from_training(checkpoint, path) if is_training else from_authors(published_tensors(checkpoint, path), path)
        )
    else:
        trained = _from_folder(find_weights(source))
    if problem is not None and trained.network.problem != problem:
        raise CheckpointError(f"{source}: trained for {trained.network.problem}, not for {problem}")
    trained.network.eval().requires_grad_(False)
    return trained


def _from_folder(folder: Path) -> TrainedLehd:
    config = read_config(folder)
    if config["model"] != MODEL:
        raise CheckpointError(f"{folder}: holds a {config['model']}, not a {MODEL}")
    try:
        network = LehdNetwork(config["problem"], **config["network"])
        k = int(config["k"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder}: {type(error).__name__}: {error}") from error
    load_weights(network, folder)
    return TrainedLehd(network, k, folder.name)


def _from_training(checkpoint: dict[str, Any], path: Path) -> TrainedLehd:
    known = inspect.signature(LehdNetwork).parameters
    try:
        options = {name: value for name, value in checkpoint["hyper_parameters"].items() if name in known}
        k = checkpoint["datamodule_hyper_parameters"]["k"]
        network = LehdNetwork(**options)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: is no checkpoint of a LEHD network's training ({type(error).__name__}: {error})"
        ) from error
    # Lightning's weight averaging puts the averaged weights where others look for the weights.
    tensors = {name.removeprefix("network."): tensor for name, tensor in checkpoint["state_dict"].items()}
    load_tensors(network, tensors, path)
    return TrainedLehd(network, k, path.stem)


_EMBEDDINGS = {
    "embed": "encoder.embedding",
    "embed_first": "decoder.embedding_first_node",
    "embed_last": "decoder.embedding_last_node",
    "score": "decoder.Linear_final",
}
_UNUSED = "decoder.k_1"


def from_authors(tensors: dict[str, Tensor], source: Path) -> TrainedLehd:
    """Turn a state dict with the parameter names of the published code into a network.

    The problem is read off the head: only the CVRP's has two scores. A map that the published TSP network has, but
    never uses, is dropped.

    Raises
    ------
    CheckpointError
        If a tensor is missing, has the wrong shape or has no place in the network.
    """
    published = PublishedTensors({name: value for name, value in tensors.items() if not _is_unused(name)}, source)
    for ours, theirs in _EMBEDDINGS.items():
        published.rename(ours, theirs)
    problem = "cvrp" if len(published.renamed["score.weight"]) == 2 else "tsp"
    network = LehdNetwork(problem, **published.options())
    load_tensors(network, published.renamed, source)
    network.eval().requires_grad_(False)
    return TrainedLehd(network, AUTHORS_K, source.stem)


def _is_unused(name: str) -> bool:
    return name.startswith(f"{_UNUSED}.")
