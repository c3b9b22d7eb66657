"""Self-attention layers without normalisation, as LEHD (Luo et al. 2023) and L2C-Insert use them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AttentionLayer(nn.Module):
    """One residual layer: multi-head self-attention, then a ReLU feed-forward block; nothing is normalised.

    ``y = x + O(softmax(Q K^T / sqrt(head_dim) + bias) V)`` and ``z = y + W2 relu(W1 y)``, where Q, K and V have no
    additive bias, and O, W1 and W2 do.

    Parameters
    ----------
    dim : int
        Width of a token.
    heads, head_dim : int
        Number of heads and the width of each.
    hidden : int
        Width of the feed-forward block.
    residual_scale : float
        Factor on the initial weights of O and W2. A deep stack without normalisation starts near the identity with
        1 / sqrt(2 * layers); 1 is PyTorch's own initialisation.
    """

    def __init__(self, dim: int, heads: int, head_dim: int, hidden: int, residual_scale: float = 1.0):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * heads * head_dim, bias=False)
        self.combine = nn.Linear(heads * head_dim, dim)
        self.expand = nn.Linear(dim, hidden)
        self.contract = nn.Linear(hidden, dim)
        if residual_scale != 1.0:
            with torch.no_grad():
                self.combine.weight.mul_(residual_scale)
                self.contract.weight.mul_(residual_scale)

    def forward(self, x: Tensor, bias: Tensor | None = None, first_query: int = 0) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        x : float [B, T, dim]
        bias : float [B, H or 1, T or 1, T], optional
            Added to the attention scores; minus infinity hides a key.
        first_query : int
            Only the tokens from here on are computed (all tokens stay keys): the last layer of a network whose head
            reads some tokens need not update the others.

        Returns
        -------
        float [B, T - first_query, dim]
        """
        rows, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(rows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if first_query:
            q, x = q[:, :, first_query:], x[:, first_query:]
            if bias is not None and bias.shape[2] > 1:
                bias = bias[:, :, first_query:]
        if x.is_cuda:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            # On a CPU the fused kernel is slower on short sequences, and less exact.
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            mixed = (scores if bias is None else scores + bias).softmax(-1) @ v
        x = x + self.combine(mixed.transpose(1, 2).flatten(2))
        return x + self.contract(F.relu(self.expand(x)))
