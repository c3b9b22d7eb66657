"""The edge-gated residual graph network of DeepACO (Ye et al. 2023), GFACS and AGFN, and its heads.

It is the anisotropic network of Joshi et al. (2019) on directed sparse graphs: nodes and edges are both embedded, and
the gates of the messages are the embeddings of the edges.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class EdgeGatedLayer(nn.Module):
    """One residual layer.

    With linear maps A1 to A4 and E, batch norms BN and N(i) the targets of the edges that leave i:

    ``x_i <- x_i + silu(BN(A1 x_i + mean over j in N(i) of sigmoid(w_ij) * A2 x_j))`` and
    ``w_ij <- w_ij + silu(BN(E w_ij + A3 x_i + A4 x_j))``, both from the old x and w.

    Parameters
    ----------
    width : int
    """

    def __init__(self, width: int):
        super().__init__()
        self.node = nn.Linear(width, width)
        self.message = nn.Linear(width, width)
        self.source = nn.Linear(width, width)
        self.target = nn.Linear(width, width)
        self.edge = nn.Linear(width, width)
        self.node_norm = nn.BatchNorm1d(width)
        self.edge_norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor, w: Tensor, edge_index: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the layer.

        Parameters
        ----------
        x, w : float [V, width], [E, width]
            Embeddings of nodes and edges.
        edge_index : int64 [2, E]
            Sources and targets.
        share : float [V, 1]
            One over the number of edges that leave a node.
        """
        source, target = edge_index
        messages = torch.sigmoid(w) * self.message(x).index_select(0, target)
        mean = torch.zeros_like(x).index_add(0, source, messages) * share
        ends = self.source(x).index_select(0, source) + self.target(x).index_select(0, target)
        new_w = w + F.silu(self.edge_norm(self.edge(w) + ends))
        return x + F.silu(self.node_norm(self.node(x) + mean)), new_w


class EdgeGatedGNN(nn.Module):
    """Embeds the nodes and edges of one or many graphs.

    Parameters
    ----------
    node_features : int
        Numbers that describe a node.
    depth, width : int
        Layers and their width.
    """

    def __init__(self, node_features: int, depth: int, width: int):
        super().__init__()
        self.embed_node = nn.Linear(node_features, width)
        self.embed_edge = nn.Linear(1, width)
        self.layers = nn.ModuleList(EdgeGatedLayer(width) for _ in range(depth))

    def forward(self, nodes: Tensor, edge_index: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Embed the nodes and edges of a ``torch_geometric`` ``Data`` or ``Batch``, given by its tensors.

        Parameters
        ----------
        nodes : float [V, node_features]
        edge_index : int64 [2, E]
        lengths : float [E, 1]

        Returns
        -------
        float [V, width], float [E, width]
        """
        degree = torch.bincount(edge_index[0], minlength=len(nodes)).clamp(min=1)
        share = (1.0 / degree).to(nodes.dtype)[:, None]
        x, w = F.silu(self.embed_node(nodes)), F.silu(self.embed_edge(lengths))
        for layer in self.layers:
            x, w = layer(x, w, edge_index, share)
        return x, w


class Head(nn.Sequential):
    """A multi-layer perceptron on embeddings: ``hidden`` layers of the same width, then a linear map.

    Parameters
    ----------
    width, outputs : int
    hidden : int
    activation : type of nn.Module
    """

    def __init__(self, width: int, outputs: int, hidden: int, activation: type[nn.Module]):
        layers: list[nn.Module] = []
        for _ in range(hidden):
            layers += [nn.Linear(width, width), activation()]
        super().__init__(*layers, nn.Linear(width, outputs))
