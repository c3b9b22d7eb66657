"""Weights in files: released folders (``weights.safetensors``, ``config.yaml``, ``CARD.md``) and checkpoints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

import nco
from nco.errors import CheckpointError

WEIGHTS, CONFIG, CARD = "weights.safetensors", "config.yaml", "CARD.md"
# Endings of files of ``torch.save``.
CHECKPOINTS = (".ckpt", ".pt", ".pth")


def released_models() -> list[Path]:
    """Return the folders of all released weights."""
    shelf = nco.shelf("models")
    return sorted(folder for folder in shelf.iterdir() if (folder / WEIGHTS).is_file())


def find_weights(name: str | Path) -> Path:
    """Return the folder of released weights by their name on the shelf, or a folder given by its path.

    Raises
    ------
    CheckpointError
        If there is neither; the message lists the shelf.
    """
    for folder in (Path(name), nco.shelf("models") / str(name)):
        if (folder / WEIGHTS).is_file():
            return folder
    known = ", ".join(folder.name for folder in released_models()) or "none"
    raise CheckpointError(f"no weights called {str(name)!r}: neither a folder with {WEIGHTS} nor one of {known}")


def read_config(folder: Path) -> dict[str, Any]:
    """Return what ``config.yaml`` says: model, problem, network options, window and search options."""
    path = folder / CONFIG
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    if not isinstance(config, dict) or not {"model", "problem", "network"} <= config.keys():
        raise CheckpointError(f"{path}: needs the keys model, problem and network")
    return config


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a ``.safetensors`` file.

    Raises
    ------
    CheckpointError
        If it is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a file of ``torch.save`` that holds nothing but tensors and plain values.

    Raises
    ------
    CheckpointError
        If it is missing, damaged or holds anything else.
    """
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises a different type for every kind of damage
        reason = str(error).split(". ")[0]
        raise CheckpointError(f"{path}: cannot be read as a checkpoint: {reason} ({type(error).__name__})") from error
    if not isinstance(checkpoint, dict):
        raise CheckpointError(f"{path}: holds a {type(checkpoint).__name__}, not a checkpoint")
    return checkpoint


def tensor_names(path: Path) -> set[str]:
    """Return the names of the tensors of a checkpoint: of a training, or a published one.

    Raises
    ------
    CheckpointError
        If it is missing or damaged.
    """
    if path.suffix == ".safetensors":
        return set(read_tensors(path))
    checkpoint = read_checkpoint(path)
    for key in ("state_dict", "model_state_dict"):
        if isinstance(checkpoint.get(key), dict):
            return set(checkpoint[key])
    return set(checkpoint)


def load_weights(network: nn.Module, folder: Path) -> None:
    """Load a released folder's tensors into a network.

    Raises
    ------
    CheckpointError
        If the file is damaged, or names or shapes do not fit; the message names the first that does not.
    """
    path = folder / WEIGHTS
    load_tensors(network, read_tensors(path), path)


def load_tensors(network: nn.Module, tensors: dict[str, Tensor], source: Path) -> None:
    """Load tensors into a network, all of them and nothing else.

    Raises
    ------
    CheckpointError
        If names or shapes do not fit; the message names the first that does not.
    """
    check_tensors(network, tensors, source)
    network.load_state_dict(tensors)


def check_tensors(network: nn.Module, tensors: dict[str, Tensor], source: Path) -> None:
    """Check that tensors are those of a network by name and shape; raises as :func:`load_tensors`."""
    wanted = network.state_dict()
    strange = sorted(wanted.keys() ^ tensors.keys())
    if strange:
        fault = "missing" if strange[0] in wanted else "not of this model"
        raise CheckpointError(f"{source}: the tensor {strange[0]!r} is {fault}")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise CheckpointError(
                f"{source}: the tensor {name!r} has the shape {list(tensor.shape)}, not {list(wanted[name].shape)}"
            )


def save_weights(network: nn.Module, config: dict[str, Any], folder: Path) -> None:
    """Write a network's tensors and its configuration, each file whole or not at all."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in network.state_dict().items()
    }
    partial = folder / (WEIGHTS + ".partial")
    save_file(tensors, partial)
    os.replace(partial, folder / WEIGHTS)
    partial = folder / (CONFIG + ".partial")
    partial.write_text(yaml.safe_dump(config, sort_keys=False))
    os.replace(partial, folder / CONFIG)
