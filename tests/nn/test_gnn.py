"""The edge-gated graph network."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from nco.nn.gnn import EdgeGatedGNN, EdgeGatedLayer


def test_a_layer_follows_its_formula() -> None:
    """Node by node and edge by edge, with a node that no edge leaves, in evaluation."""
    torch.manual_seed(0)
    layer = EdgeGatedLayer(4).eval()
    x, w = torch.rand(4, 4), torch.rand(5, 4)
    edges = [(0, 1), (0, 2), (1, 0), (2, 1), (2, 3)]
    edge_index = torch.tensor(edges).T
    share = torch.tensor([1 / 2, 1.0, 1 / 2, 1.0])[:, None]
    new_x, new_w = layer(x, w, edge_index, share)
    for node in range(4):
        leaving = [number for number, (source, _) in enumerate(edges) if source == node]
        messages = [torch.sigmoid(w[number]) * layer.message(x[edges[number][1]]) for number in leaving]
        mean = torch.stack(messages).mean(dim=0) if messages else torch.zeros(4)
        wanted = x[node] + F.silu(layer.node_norm((layer.node(x[node]) + mean)[None])[0])
        torch.testing.assert_close(new_x[node], wanted)
    for number, (source, target) in enumerate(edges):
        ends = layer.source(x[source]) + layer.target(x[target])
        wanted = w[number] + F.silu(layer.edge_norm((layer.edge(w[number]) + ends)[None])[0])
        torch.testing.assert_close(new_w[number], wanted)


def test_the_order_of_edges_means_nothing() -> None:
    """Edges shuffled give the same nodes, and the same edges shuffled."""
    torch.manual_seed(0)
    network = EdgeGatedGNN(node_features=2, depth=3, width=8).eval()
    nodes, lengths = torch.rand(6, 2), torch.rand(20, 1)
    edge_index = torch.randint(0, 6, (2, 20))
    order = torch.randperm(20)
    x, w = network(nodes, edge_index, lengths)
    shuffled_x, shuffled_w = network(nodes, edge_index[:, order], lengths[order])
    torch.testing.assert_close(shuffled_x, x)
    torch.testing.assert_close(shuffled_w, w[order])
