"""Trained heat networks of GFACS and AGFN: from released folders, from training checkpoints, from the authors' ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from nco.errors import CheckpointError
from nco.models.heat_network import HeatNetwork
from nco.models.published import published_tensors
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

GFACS, AGFN = "gfacs", "agfn"
# Names of tensors that only these models have: in a training's checkpoint, and in a published one.
TELLING_NAMES = frozenset({"network.graph.embed_node.weight", "emb_net.v_lin0.weight"})
# One neighbour for so many nodes, where the published programs test their weights of HBG.
AUTHORS_SPARSITY = {(GFACS, "tsp"): 5, (GFACS, "cvrp"): 5, (AGFN, "tsp"): 10, (AGFN, "cvrp"): 5}


@dataclass(frozen=True)
class TrainedHeat:
    """A network and the graphs that it was trained on.

    Attributes
    ----------
    model : {"gfacs", "agfn"}
    network : HeatNetwork
        In evaluation mode.
    sparsity : int
        One neighbour of each node for so many nodes, see :func:`nco.models.sparse_graphs.nearest_count`.
    name : str
    """

    model: str
    network: HeatNetwork
    sparsity: int
    name: str

    def save(self, folder: Path, **notes: Any) -> None:
        """Write the weights as a released folder; the notes go into its configuration."""
        config = {
            "model": self.model,
            "problem": self.network.problem,
            "network": self.network.options,
            "sparsity": self.sparsity,
            **notes,
        }
        save_weights(self.network, config, folder)


def load_heat(source: str | Path, problem: str | None = None, model: str | None = None) -> TrainedHeat:
    """Load a network.

    Parameters
    ----------
    source : path-like
        The name of released weights, a folder with weights, a checkpoint of a training (the averaged weights, where it
        has averaged; of AGFN the generator), or a checkpoint of the published code of GFACS, AGFN or HBG (``.pt`` or
        ``.safetensors``, see :func:`from_authors`).
    problem : {"tsp", "cvrp"}, optional
        What it must have been trained for.
    model : {"gfacs", "agfn"}, optional
        Which one it must be.

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
    if model is not None and trained.model != model:
        raise CheckpointError(f"{source}: holds weights of {trained.model}, not of {model}")
    trained.network.eval().requires_grad_(False)
    return trained


def _from_folder(folder: Path) -> TrainedHeat:
    config = read_config(folder)
    if config["model"] not in (GFACS, AGFN):
        raise CheckpointError(f"{folder}: holds a {config['model']}, not a {GFACS} or {AGFN}")
    try:
        network = HeatNetwork(config["problem"], **config["network"])
        sparsity = int(config["sparsity"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder}: {type(error).__name__}: {error}") from error
    load_weights(network, folder)
    return TrainedHeat(config["model"], network, sparsity, folder.name)


def _from_training(checkpoint: dict[str, Any], path: Path) -> TrainedHeat:
    try:
        sparsity = int(checkpoint["hyper_parameters"]["sparsity"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: is no checkpoint of a heat network's training ({type(error).__name__}: {error})"
        ) from error
    # Lightning's weight averaging puts the averaged weights where others look for the weights. The discriminator of
    # AGFN is needed for training only.
    prefix = "network."
    tensors = {
        name.removeprefix(prefix): tensor
        for name, tensor in checkpoint["state_dict"].items()
        if name.startswith(prefix)
    }
    network = _network_of(tensors, path)
    return TrainedHeat(model_of(network), network, sparsity, path.stem)


def _network_of(tensors: dict[str, Tensor], source: Path) -> HeatNetwork:
    """Build the network of tensors with our names, whose shapes tell all options.

    A TSP's node has two features; only GFACS has two kinds of trajectories, and only HBG a log-flow.
    """
    try:
        width, features = tensors["graph.embed_node.weight"].shape
        kinds = len(tensors["log_z.2.weight"])
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"{source}: is no checkpoint of GFACS, AGFN or HBG ({error})") from error
    depth = len({name.split(".")[2] for name in tensors if name.startswith("graph.layers.")})
    problem = "tsp" if features == 2 else "cvrp"
    network = HeatNetwork(problem, depth, width, kinds, node_flow="log_flow.2.weight" in tensors)
    load_tensors(network, tensors, source)
    return network


def model_of(network: HeatNetwork) -> str:
    """Tell the model by its kinds of trajectories."""
    return AGFN if network.options["kinds"] == 1 else GFACS


_GRAPH = {"v_lin0": "embed_node", "e_lin0": "embed_edge"}
_LAYER = {
    "v_lins1": "node",
    "v_lins2": "message",
    "v_lins3": "source",
    "v_lins4": "target",
    "e_lins0": "edge",
    "v_bns": "node_norm",
    "e_bns": "edge_norm",
}
_HEADS = {"par_net_heu": "heat", "Z_net": "log_z", "Z_net1": "log_flow"}


def from_authors(tensors: dict[str, Tensor], source: Path) -> TrainedHeat:
    """Turn a state dict with the parameter names of the published codes into a network.

    Raises
    ------
    CheckpointError
        If a tensor is missing, has the wrong shape or has no place in the network.
    """
    renamed = {_our_name(name): tensor for name, tensor in tensors.items() if not name.endswith("._dummy")}
    network = _network_of(renamed, source)
    network.eval().requires_grad_(False)
    model = model_of(network)
    return TrainedHeat(model, network, AUTHORS_SPARSITY[model, network.problem], source.stem)


def _our_name(name: str) -> str:
    """Return our name of a published tensor; a name that is none of theirs stays, and is then complained of."""
    parts = name.split(".")
    if parts[0] == "emb_net" and len(parts) == 3 and parts[1] in _GRAPH:
        return ".".join(["graph", _GRAPH[parts[1]], parts[2]])
    if parts[0] == "emb_net" and len(parts) >= 4 and parts[1] in _LAYER:
        return ".".join(["graph", "layers", parts[2], _LAYER[parts[1]], parts[-1]])
    if parts[0] in _HEADS and parts[-2].isdigit():
        # The heat's linear maps are counted one by one, in the others the activations between them too.
        place = 2 * int(parts[-2]) if parts[0] == "par_net_heu" else int(parts[-2])
        return f"{_HEADS[parts[0]]}.{place}.{parts[-1]}"
    return name
