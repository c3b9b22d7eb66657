"""LEHD's network against the published numbers, and its options."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from nco.models.lehd.network import LehdNetwork
from nco.models.lehd.pretrained import from_authors
from nco.search.candidates import Candidates

# The fixtures' own recommendation: weights as drawn, and with every matrix multiplied by a factor.
TOLERANCE = {"base": 1e-6, "sharp": 1e-4}

read = cache(load_file)


def published(shared: Path, problem: str, kind: str) -> tuple[LehdNetwork, dict[str, Tensor]]:
    """Return the fixture's network and its cases."""
    weights, cases = (read(shared / "parity" / f"lehd_{problem}_{part}.safetensors") for part in ("weights", "cases"))
    if kind != "base":
        factor = cases["sharp_factor" if kind == "sharp" else "tiny.factor"]
        weights = {name: value * factor if name.endswith(".weight") else value for name, value in weights.items()}
    return from_authors(weights, shared).network, cases


def close(found: Tensor, wanted: Tensor, kind: str) -> bool:
    """Compare up to the fixture's tolerance, relative above 1."""
    return bool(((found - wanted).abs() / wanted.abs().clamp(min=1) < TOLERANCE[kind]).all())


def full_scores(
    network: LehdNetwork, nodes: Tensor, first: int, last: int, available: Tensor, **load: Tensor
) -> Tensor:
    """Score a state whose instance was encoded once, as without windows."""
    (encoded,) = network.encode(nodes[None])
    seen = torch.ones(1, len(available), dtype=torch.bool)
    candidates = Candidates(nodes[first][None], nodes[last][None], nodes[available][None], seen, **load)
    return network.decode(candidates, encoded[first][None], encoded[available][None], encoded[last][None])[0]


@pytest.mark.parametrize("kind", ["base", "sharp"])
@pytest.mark.parametrize("case", [0, 1, 2, 3])
def test_tsp_scores_are_the_published_ones(shared: Path, kind: str, case: int) -> None:
    """From one visited node to two open ones, the scores of all candidates agree with the reference."""
    network, cases = published(shared, "tsp", kind)
    selected, available = cases[f"state.{case}.selected"].tolist(), cases[f"state.{case}.available"]
    found = full_scores(network, cases["coords"][case], selected[0], selected[-1], available)
    assert close(found, cases[f"state.{case}.{kind}.logits"], kind)


@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_tsp_encodings_are_the_published_ones(shared: Path, kind: str) -> None:
    """The encoder's output agrees, node by node."""
    network, cases = published(shared, "tsp", kind)
    assert close(network.encode(cases["coords"][1][None])[0], cases[f"state.1.{kind}.enc"], kind)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_scores_of_a_batch_are_the_published_ones(shared: Path, problem: str, kind: str) -> None:
    """Four states at once, encoded and decoded as rows of one call."""
    network, cases = published(shared, problem, kind)
    nodes = torch.stack([instance(cases, row)[0] for row in range(4)])
    count = nodes.shape[1]
    first, available, last = [], [], []
    for selected in cases["batch.selected"].tolist():
        first.append(0 if problem == "cvrp" else selected[0])
        last.append(selected[-1])
        # The depot is never available.
        available.append([node for node in range(int(problem == "cvrp"), count) if node not in selected])
    row = torch.arange(4)
    encoded, ids = network.encode(nodes), torch.tensor(available)
    seen = torch.ones_like(ids, dtype=torch.bool)
    load = {} if problem == "tsp" else {"remaining": cases["batch.remaining"] / cases["capacity"], "fits": seen}
    candidates = Candidates(nodes[row, first], nodes[row, last], nodes[row[:, None], ids], seen, **load)
    found = network.decode(candidates, encoded[row, first], encoded[row[:, None], ids], encoded[row, last])
    assert close(found, cases[f"batch.{kind}.logits"].flatten(1), kind)


def test_probabilities_are_the_published_ones(shared: Path) -> None:
    """In a steep network, where the reference adds 1e-7 to what is hardly probable."""
    network, cases = published(shared, "tsp", "tiny")
    selected = cases["tiny.selected"].tolist()
    available = torch.tensor([node for node in range(30) if node not in selected])
    found = full_scores(network, cases["coords"][1], selected[0], selected[-1], available)
    assert close(found, cases["tiny.logits"], "sharp")
    probabilities = found.softmax(0)
    probabilities = torch.where(probabilities <= 1e-5, probabilities + 1e-7, probabilities)
    torch.testing.assert_close(probabilities, cases["tiny.probs"][available], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["base", "sharp"])
@pytest.mark.parametrize("row", [0, 1, 2, 3])
def test_greedy_tours_are_the_published_ones(shared: Path, kind: str, row: int) -> None:
    """Argmax construction from node 0 on 30 nodes gives the reference's tours."""
    network, cases = published(shared, "tsp", kind)
    tour, available = [0], list(range(1, 30))
    while available:
        scores = full_scores(network, cases["coords"][row], 0, tour[-1], torch.tensor(available))
        tour.append(available.pop(int(scores.argmax())))
    assert tour == cases[f"greedy.{kind}.tour"][row].tolist()


def instance(cases: dict[str, Tensor], row: int) -> tuple[Tensor, Tensor, int]:
    """Return nodes (x, y and, for a CVRP, demand over capacity), demand and capacity of a fixture's instance."""
    coords = cases["coords"][row]
    if "demand" not in cases:
        return coords, torch.zeros(len(coords)), 0
    demand, capacity = cases["demand"][row], int(cases["capacity"][row])
    return torch.cat([coords, (demand / capacity)[:, None]], dim=1), demand, capacity


def cvrp_scores(network: LehdNetwork, nodes: Tensor, last: int, available: Tensor, remaining: float) -> Tensor:
    """Score a CVRP state, whatever fits: float [2, K]."""
    load = {"remaining": torch.tensor([remaining]), "fits": torch.ones(1, len(available), dtype=torch.bool)}
    return full_scores(network, nodes, 0, last, available, **load).view(2, -1)


@pytest.mark.parametrize("kind", ["base", "sharp"])
@pytest.mark.parametrize("case", [0, 1, 2, 3])
def test_cvrp_scores_are_the_published_ones(shared: Path, kind: str, case: int) -> None:
    """Directly and via the depot, from the depot alone to two open customers."""
    network, cases = published(shared, "cvrp", kind)
    nodes, _, capacity = instance(cases, case)
    last = int([0, *cases[f"state.{case}.selected"].tolist()][-1])
    remaining = float(cases[f"state.{case}.remaining"]) / capacity
    found = cvrp_scores(network, nodes, last, cases[f"state.{case}.available"], remaining)
    assert close(found, cases[f"state.{case}.{kind}.logits"], kind)


@pytest.mark.parametrize("kind", ["base", "sharp"])
@pytest.mark.parametrize("row", [0, 1, 2, 3])
def test_greedy_routes_are_the_published_ones(shared: Path, kind: str, row: int) -> None:
    """With the reference's rule for a customer that does not fit: to it via the depot, whatever was chosen."""
    network, cases = published(shared, "cvrp", kind)
    nodes, demand, capacity = instance(cases, row)
    last, remaining, available, forced = 0, capacity, list(range(1, 21)), 0
    solution = []
    while available:
        scores = cvrp_scores(network, nodes, last, torch.tensor(available), remaining / capacity)
        via_depot, slot = divmod(int(scores.argmax()), len(available))
        last = available.pop(slot)
        is_forced = not solution or (not via_depot and int(demand[last]) > remaining)
        forced += is_forced and bool(solution)
        via_depot |= is_forced
        remaining = (capacity if via_depot else remaining) - int(demand[last])
        solution.append([last, via_depot])
    assert solution == cases[f"greedy.{kind}.solution"][row].tolist()
    assert forced == int(cases[f"greedy.{kind}.forced_depot_returns"][row])


@pytest.mark.parametrize(("problem", "parameters"), [("tsp", 1_431_681 - 128 * 129), ("cvrp", 1_415_682)])
def test_the_defaults_are_the_papers_sizes(problem: str, parameters: int) -> None:
    """The network without options has as many parameters as the published one, less a map that nothing uses."""
    assert sum(parameter.numel() for parameter in LehdNetwork(problem).parameters()) == parameters
