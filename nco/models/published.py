"""State dicts with the parameter names that the releases of LEHD and L2C-Insert share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nco.errors import CheckpointError

# The published codes have 8 heads, which no shape reveals.
HEADS = 8
STACKS = ("encoder", "decoder")
_BLOCKS = {"combine": "multi_head_combine", "expand": "feedForward.W1", "contract": "feedForward.W2"}


class PublishedTensors:
    """Renames published tensors into those of a network, and sees that none is missing and none left over.

    Parameters
    ----------
    tensors : dict of Tensor
    source : Path
        Where they come from, for messages.

    Attributes
    ----------
    renamed : dict of Tensor
        What was taken so far, by our names.
    """

    def __init__(self, tensors: dict[str, Tensor], source: Path):
        self.rest = dict(tensors)
        self.source = source
        self.renamed: dict[str, Tensor] = {}

    def take(self, name: str) -> Tensor:
        """Return a tensor and count it as used.

        Raises
        ------
        CheckpointError
            If it is missing.
        """
        if name not in self.rest:
            raise CheckpointError(f"{self.source}: the tensor {name!r} is missing")
        return self.rest.pop(name)

    def rename(self, ours: str, theirs: str) -> None:
        """Take weight and bias of a linear map."""
        for part in ("weight", "bias"):
            self.renamed[f"{ours}.{part}"] = self.take(f"{theirs}.{part}")

    def options(self) -> dict[str, Any]:
        """Take the attention layers of encoder and decoder, and return the network options that the shapes tell.

        ``embed`` must be renamed already; afterwards no tensor may be left.

        Raises
        ------
        CheckpointError
            If a tensor is missing, has the wrong shape or is left over.
        """
        depth = {stack: self._stack(stack) for stack in STACKS}
        if self.rest:
            raise CheckpointError(f"{self.source}: the tensor {min(self.rest)!r} is not of this model")
        if not depth["decoder"]:
            raise CheckpointError(f"{self.source}: has no layer decoder.layers.0")
        return {
            "dim": len(self.renamed["embed.weight"]),
            "heads": HEADS,
            "head_dim": len(self.renamed["decoder.0.qkv.weight"]) // 3 // HEADS,
            "hidden": len(self.renamed["decoder.0.expand.weight"]),
            "encoder_layers": depth["encoder"],
            "decoder_layers": depth["decoder"],
        }

    def _stack(self, stack: str) -> int:
        """Take a stack of attention layers, and return how many there are."""
        layers = len({name.split(".")[2] for name in self.rest if name.startswith(f"{stack}.layers.")})
        for number in range(layers):
            layer = f"{stack}.layers.{number}"
            parts = [self.take(f"{layer}.W{part}.weight") for part in "qkv"]
            if len({part.shape for part in parts}) > 1:
                raise CheckpointError(f"{self.source}: Wq, Wk and Wv of {layer} differ in shape")
            self.renamed[f"{stack}.{number}.qkv.weight"] = torch.cat(parts)
            for block, name in _BLOCKS.items():
                self.rename(f"{stack}.{number}.{block}", f"{layer}.{name}")
        return layers


def published_tensors(checkpoint: dict[str, Any], source: Path) -> dict[str, Tensor]:
    """Return the tensors of a published checkpoint, which are all of it or its ``model_state_dict``.

    Raises
    ------
    CheckpointError
        If there is anything else.
    """
    tensors = checkpoint.get("model_state_dict", checkpoint)
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise CheckpointError(f"{source}: holds no state_dict, no model_state_dict and not only tensors")
    return tensors
