"""Places and lengths as networks see them: distances, softened ranges, and attention that fades with distance."""

from __future__ import annotations

import torch
from torch import Tensor


def distances(places: Tensor) -> Tensor:
    """Return all distances [B, T, T] of points [B, T, 2]; coordinates get no gradient."""
    x, y = places.unbind(-1)
    return ((x[:, :, None] - x[:, None, :]).square() + (y[:, :, None] - y[:, None, :]).square()).sqrt()


def soften(lengths: Tensor) -> Tensor:
    """Return lengths up to 1 as they are and 1 + log(length) beyond."""
    return torch.where(lengths > 1, 1 + lengths.clamp(min=1).log(), lengths)


def soften_places(nodes: Tensor) -> Tensor:
    """Pull nodes [..., F] beyond the unit circle in, along their bearing: see :func:`soften`."""
    length = nodes[..., :2].norm(dim=-1, keepdim=True).clamp(min=1.0)
    return torch.cat([nodes[..., :2] * ((1 + length.log()) / length), nodes[..., 2:]], dim=-1)


def attention_biases(
    layers: int, mask: Tensor | None, places: Tensor | None, log_weights: Tensor | None
) -> list[Tensor | None]:
    """Return each layer's addition to the attention scores, float [B, H or 1, T or 1, T].

    Parameters
    ----------
    layers : int
    mask : bool [B, T], optional
        False hides a token from all others.
    places : float [B, T, 2], optional
    log_weights : float [layers, H], optional
        Each head subtracts exp(weight) times the distance of two tokens.
    """
    hidden = None
    if mask is not None:
        dtype = torch.float32 if log_weights is None else log_weights.dtype
        hidden = torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, -torch.inf)[:, None, None, :]
    if log_weights is None or places is None:
        return [hidden] * layers
    distance = distances(places)[:, None]
    biases: list[Tensor | None] = []
    for weight in log_weights.exp():
        bias = -weight[None, :, None, None] * distance
        biases.append(bias if hidden is None else bias + hidden)
    return biases
