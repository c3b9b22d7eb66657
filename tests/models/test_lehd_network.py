"""LEHD's network against the published numbers, and its options."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from nco.models.lehd.network import LehdNetwork, scale_candidates
from nco.models.lehd.pretrained import from_authors
from nco.search.candidates import Candidates

# Weights as drawn, as the fixtures recommend; and with every matrix multiplied by a factor. Such steep networks are off
# by up to 3e-3 in single precision, differently on every processor.
TOLERANCE = {"base": 1e-6, "sharp": 1e-2}

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
    torch.testing.assert_close(probabilities, cases["tiny.probs"][available], atol=0, rtol=5e-3)


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


SMALL = {"dim": 8, "heads": 2, "head_dim": 4, "hidden": 8, "decoder_layers": 2}
BEYOND = dict.fromkeys(("softened", "geometry", "cost_prior", "distance_bias", "scaled_residuals"), True)


def small(problem: str, **options: object) -> LehdNetwork:
    """Return a small network with random weights, the same every time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LehdNetwork(problem, **(SMALL | options))  # type: ignore[arg-type]


def decisions(problem: str, rows: int = 5, count: int = 6) -> Candidates:
    """Return random decisions, some with fewer candidates."""
    generator = torch.Generator().manual_seed(1)
    features = 2 + (problem == "cvrp")
    first, last = (torch.rand(rows, features, generator=generator) for _ in range(2))
    nodes = torch.rand(rows, count, features, generator=generator)
    mask = torch.arange(count) < torch.randint(2, count + 1, (rows, 1), generator=generator)
    if problem == "tsp":
        return Candidates(first, last, nodes, mask)
    remaining = torch.rand(rows, generator=generator)
    return Candidates(first, last, nodes, mask, remaining, mask & (nodes[..., 2] <= remaining[:, None]))


ALL_OPTIONS = [{}, {"window_scaling": "centred"}, {"window_scaling": "isotropic", **BEYOND}]


@pytest.mark.parametrize("options", ALL_OPTIONS)
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_only_moves_that_are_allowed_get_scores(problem: str, options: dict) -> None:
    """Directly to candidates that fit, via the depot to all; all else is minus infinity."""
    candidates = decisions(problem)
    scores = small(problem, **options)(candidates)
    wanted = candidates.mask
    if candidates.fits is not None:
        assert bool((candidates.fits != candidates.mask).any())
        wanted = torch.cat([candidates.fits, candidates.mask], dim=1)
    assert torch.equal(scores.isfinite(), wanted)
    assert bool((scores[~wanted] == -torch.inf).all())


@pytest.mark.parametrize("options", ALL_OPTIONS)
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_what_fills_up_a_row_is_seen_by_nothing(problem: str, options: dict) -> None:
    """A row alone, without its padding, gets the same scores."""
    network, candidates = small(problem, **options), decisions(problem)
    scores = network(candidates)
    for row in range(5):
        width = int(candidates.mask[row].sum())
        alone = candidates[row : row + 1]
        fits = None if alone.fits is None else alone.fits[:, :width]
        alone = replace(alone, nodes=alone.nodes[:, :width], mask=alone.mask[:, :width], fits=fits)
        kept = scores[row].view(-1, 6)[:, :width].flatten()
        torch.testing.assert_close(network(alone)[0], kept, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", ALL_OPTIONS)
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_scores_follow_the_candidates_order(problem: str, options: dict) -> None:
    """Candidates in another order get the same scores in that order."""
    network, candidates = small(problem, **options), decisions(problem)
    order = torch.tensor([3, 0, 5, 2, 1, 4])
    fits = None if candidates.fits is None else candidates.fits[:, order]
    turned = replace(candidates, nodes=candidates.nodes[:, order], mask=candidates.mask[:, order], fits=fits)
    wanted = network(candidates).view(5, -1, 6)[:, :, order].flatten(1)
    torch.testing.assert_close(network(turned), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scaling", ["isotropic", "centred"])
def test_scaled_windows_make_place_and_size_irrelevant(scaling: str) -> None:
    """The same decision, moved and ten times as large, gets the same scores; unscaled it does not."""
    candidates = decisions("cvrp")

    def moved(nodes: Tensor) -> Tensor:
        return torch.cat([10 * nodes[..., :2] + 3, nodes[..., 2:]], dim=-1)

    other = replace(
        candidates, first=moved(candidates.first), last=moved(candidates.last), nodes=moved(candidates.nodes)
    )
    network = small("cvrp", window_scaling=scaling)
    torch.testing.assert_close(network(other), network(candidates), atol=1e-4, rtol=1e-4)
    network.window_scaling = "none"
    assert not torch.allclose(network(other), network(candidates), atol=1e-4, rtol=1e-4)


def test_windows_are_scaled_by_the_last_node_and_the_candidates() -> None:
    """By hand: the box of the last node and the candidates becomes the unit square's width, the destination does not
    count; centred, the last node is the origin and the farthest candidate has distance 1.
    """
    candidates = Candidates(
        torch.tensor([[9.0, 1.0]]),
        torch.tensor([[1.0, 1.0]]),
        torch.tensor([[[3.0, 1.0], [1.0, 2.0], [7.0, 7.0]]]),
        torch.tensor([[True, True, False]]),
    )
    isotropic = scale_candidates(candidates, "isotropic")
    assert isotropic.nodes[0, :2].tolist() == [[1.0, 0.0], [0.0, 0.5]]
    assert (isotropic.first.tolist(), isotropic.last.tolist()) == ([[4.0, 0.0]], [[0.0, 0.0]])
    centred = scale_candidates(candidates, "centred")
    assert centred.nodes[0, :2].tolist() == [[1.0, 0.0], [0.0, 0.5]]
    assert centred.first.tolist() == [[4.0, 0.0]]


@pytest.mark.parametrize("scaling", ["none", "isotropic", "centred"])
def test_coinciding_nodes_are_scored(scaling: str) -> None:
    """All nodes in one place make no division by zero, forward or backward."""
    place = torch.full((1, 2), 0.3)
    network = small("tsp", window_scaling=scaling, **BEYOND)
    scores = network(Candidates(place, place, place.expand(1, 4, 2), torch.ones(1, 4, dtype=torch.bool)))
    scores.logsumexp(dim=1).sum().backward()
    assert bool(scores.isfinite().all())
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_a_softened_network_bears_a_destination_at_any_distance() -> None:
    """At a million times the window's size scores stay in range, and still depend on the side that it lies on."""
    candidates = decisions("tsp")
    scores = []
    for offset in (1e6, -1e6):
        far = replace(candidates, first=candidates.last + torch.tensor([offset, 0.0]))
        scores.append(small("tsp", window_scaling="isotropic", **BEYOND)(far)[candidates.mask].detach())
    assert float(torch.stack(scores).abs().max()) < 100
    assert float((scores[0] - scores[1]).abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("options", "reason"), [({"problem": "vrp"}, "problem 'vrp'"), ({"window_scaling": "axis"}, "none, isotropic")]
)
def test_unknown_options_are_refused(options: dict, reason: str) -> None:
    """The message names what is wrong."""
    with pytest.raises(ValueError, match=reason):
        LehdNetwork(**({"problem": "tsp"} | options))
