"""The network of GFACS and AGFN, which are one but for their sizes: it heats the edges of sparse graphs.

:func:`heat_of` is what solvers call.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nco.instance import PROBLEMS, InstanceBatch
from nco.models.sparse_graphs import edges_as_heat, node_features, sparse_graphs
from nco.nn.gnn import EdgeGatedGNN, Head
from nco.search.heat import SparseHeat, nearest_graph


@dataclass(frozen=True)
class Flows:
    """What the network says of B instances.

    Attributes
    ----------
    heat : SparseHeat
    log_z : float [B, K]
        Logarithms of the partition function, one for each kind of trajectories.
    log_flow : float [B, N, K] or None
        What each node adds to the logarithm of the flow through a state; None without that head.
    """

    heat: SparseHeat
    log_z: Tensor
    log_flow: Tensor | None


class HeatNetwork(nn.Module):
    """An edge-gated graph network with a heat for each edge, log Z and, of HBG, a log-flow for each node.

    Parameters
    ----------
    problem : {"tsp", "cvrp"}
        Nodes are described by coordinates, or by demand over capacity; edges by their length.
    depth, width : int
        12 x 32 in GFACS and in AGFN for the TSP, 16 x 64 in AGFN for the CVRP.
    kinds : int
        Kinds of trajectories with a log Z and a log-flow of their own: in GFACS 2, sampled and locally searched ones,
        in AGFN 1.
    node_flow : bool
        Whether there is a log-flow, which detailed balance needs.

    Attributes
    ----------
    options : dict
        All of the above but the problem: what builds the same network again.
    """

    def __init__(self, problem: str, depth: int = 12, width: int = 32, kinds: int = 2, node_flow: bool = True):
        super().__init__()
        if problem not in PROBLEMS:
            raise ValueError(f"unknown problem {problem!r}")
        self.problem = problem
        self.options = {"depth": depth, "width": width, "kinds": kinds, "node_flow": node_flow}
        self.graph = EdgeGatedGNN(node_features(problem), depth, width)
        self.heat = Head(width, 1, hidden=2, activation=nn.SiLU)
        self.log_z = Head(width, kinds, hidden=1, activation=nn.ReLU)
        self.log_flow = Head(width, kinds, hidden=1, activation=nn.ReLU) if node_flow else None

    def forward(self, batch: InstanceBatch, neighbours: Tensor) -> Flows:
        """Look at instances.

        Parameters
        ----------
        batch : InstanceBatch
            B instances of the network's problem.
        neighbours : int64 [B, N, k]
            Of the sparse graphs, see :func:`nco.search.heat.nearest_graph`.
        """
        graphs = sparse_graphs(batch, neighbours)
        nodes, edges = self.graph(graphs.x, graphs.edge_index, graphs.edge_attr)
        heat = torch.sigmoid(self.heat(edges).squeeze(-1))
        rows = len(batch)
        # Graphs of instances of one size have as many edges each.
        log_z = self.log_z(edges).view(rows, -1, self.options["kinds"]).mean(dim=1)
        log_flow = None if self.log_flow is None else self.log_flow(nodes).view(rows, batch.num_nodes, -1)
        return Flows(edges_as_heat(batch, neighbours, heat), log_z, log_flow)


def heat_of(network: HeatNetwork, batch: InstanceBatch, k: int) -> SparseHeat:
    """Return the heats of instances on graphs of the k nearest neighbours, or of as many as there are.

    Parameters
    ----------
    network : HeatNetwork
        On the batch's device, and in evaluation mode.
    batch : InstanceBatch
    k : int

    Returns
    -------
    SparseHeat
        Where gradients are enabled, with them.

    Raises
    ------
    ValueError
        If the batch is of another problem than the network.
    """
    if batch.problem != network.problem:
        raise ValueError(f"a network for {network.problem} cannot see a {batch.problem}")
    return network(batch, nearest_graph(batch, k)).heat
