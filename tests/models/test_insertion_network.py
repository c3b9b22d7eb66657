"""The insertion network against the published numbers, and its options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from nco.models.l2c_insert.network import InsertionNetwork
from nco.models.l2c_insert.pretrained import from_authors
from nco.search.window import Positions, Vehicle, Window, WindowRule, take_window

# The fixtures' own recommendation: weights as drawn, and with every matrix multiplied by a factor.
TOLERANCE = {"base": 1e-6, "sharp": 1e-4}
KNN = 10


def published(shared: Path, problem: str, kind: str) -> tuple[InsertionNetwork, dict[str, Tensor]]:
    """Return the fixture's network and its cases."""
    weights = load_file(shared / "parity" / f"l2c_{problem}_weights.safetensors")
    cases = load_file(shared / "parity" / f"l2c_{problem}_cases.safetensors")
    factor = cases["sharp_factor"]
    if kind == "sharp":
        weights = {name: value * factor if name.endswith(".weight") else value for name, value in weights.items()}
    return from_authors(weights, shared).network, cases


def close(found: Tensor, wanted: Tensor, kind: str) -> bool:
    """Compare up to the fixture's tolerance, relative above 1; infinities must agree."""
    finite = wanted.isfinite()
    error = (found - wanted).abs() / wanted.abs().clamp(min=1)
    return bool((found.isfinite() == finite).all()) and bool((error[finite] < TOLERANCE[kind]).all())


def cycle_window(coords: Tensor, partial: Tensor, current: Tensor, unvisited: Tensor) -> Window:
    """Return the window of a whole TSP state, everything in list order."""
    right = partial.roll(-1)
    places = torch.ones(1, len(partial), dtype=torch.bool)
    seen = torch.ones(1, len(unvisited), dtype=torch.bool)
    return Window(
        coords[current][None], coords[unvisited][None], seen, coords[partial][None], coords[right][None], places, places
    )


def full_scores(network: InsertionNetwork, nodes: Tensor, window: Window, ids: list[Tensor]) -> Tensor:
    """Score a state whose instance was encoded once, as without windows."""
    encoded = network.encode(nodes[None])[0]
    current, unvisited, left, right = (encoded[index] for index in ids)
    return network.decode(window, current[None], unvisited[None], left[None], right[None])[0]


@pytest.mark.parametrize("kind", ["base", "sharp"])
@pytest.mark.parametrize("case", [0, 1, 2, 3])
def test_tsp_scores_of_whole_states_are_the_published_ones(shared: Path, kind: str, case: int) -> None:
    """From one visited node to one open node, the scores of all positions agree with the reference."""
    network, cases = published(shared, "tsp", kind)
    coords, partial = cases["tsp30.coords"][case], cases[f"full.{case}.partial"]
    current, unvisited = cases[f"full.{case}.current"].reshape(()), cases[f"full.{case}.unvisited"]
    window = cycle_window(coords, partial, current, unvisited)
    found = full_scores(network, coords, window, [current, unvisited, partial, partial.roll(-1)])
    assert close(found, cases[f"full.{case}.{kind}.logits"], kind)
    place = int(found.argmax()) + 1
    extended = torch.cat([partial[:place], current[None], partial[place:]])
    assert torch.equal(extended, cases[f"full.{case}.{kind}.extended"])


@pytest.mark.parametrize("scaling", ["raw", "norm"])
@pytest.mark.parametrize("kind", ["base", "sharp"])
@pytest.mark.parametrize("case", [0, 1, 2, 3, 4])
def test_tsp_scores_of_windows_are_the_published_ones(shared: Path, kind: str, case: int, scaling: str) -> None:
    """With 10 positions and 10 open nodes the window keeps the same ones, and scores agree."""
    network, cases = published(shared, "tsp", kind)
    network.window_scaling = "axis" if scaling == "norm" else "none"
    coords, partial = cases["tsp60.coords"][case % 4], cases[f"knn.{case}.partial"]
    current = cases[f"knn.{case}.current"].reshape(())
    open_nodes = torch.tensor([node for node in range(60) if node not in {*partial.tolist(), int(current)}])
    window, slots = tsp_window(coords, partial, current, open_nodes)
    kept = cases[f"knn.{case}.kept_gaps"]
    scores = torch.full((len(partial),), -torch.inf).scatter(0, slots[0], network(window)[0])
    wanted = torch.full((len(partial),), -torch.inf).scatter(0, kept, cases[f"knn.{case}.{kind}.{scaling}.logits"])
    assert close(scores, wanted, kind)


def tsp_window(coords: Tensor, partial: Tensor, current: Tensor, open_nodes: Tensor) -> tuple[Window, Tensor]:
    """Return the nearest 10 positions and 10 nodes."""
    ends = coords[partial][None], coords[partial.roll(-1)][None]
    positions = Positions(*ends, torch.ones(1, len(partial), dtype=torch.bool))
    seen = torch.ones(1, len(open_nodes), dtype=torch.bool)
    window, slots = take_window(WindowRule(KNN, KNN), coords[current][None], positions, coords[open_nodes][None], seen)
    # What is not reduced stays in list order. The sharp networks are so steep that the order of a sum matters.
    if len(partial) <= KNN:
        slots = torch.arange(len(partial))[None]
        window = replace(window, left=ends[0], right=ends[1])
    if len(open_nodes) <= KNN:
        window = replace(window, unvisited=coords[open_nodes][None])
    return window, slots


def greedy_tsp(network: InsertionNetwork, coords: Tensor, windows: bool) -> list[int]:
    """Build a tour from node 0 as released: the nearest open node next, at the best position."""
    tour, last = [0], 0
    open_nodes = list(range(1, len(coords)))
    while open_nodes:
        distance = (coords[open_nodes] - coords[last]).norm(dim=1)
        last = open_nodes.pop(int(distance.argmin()))
        partial, current, rest = torch.tensor(tour), torch.tensor(last), torch.tensor(open_nodes, dtype=torch.long)
        if windows:
            window, slots = tsp_window(coords, partial, current, rest)
            place = int(slots[0, int(network(window).argmax())])
        else:
            window = cycle_window(coords, partial, current, rest)
            place = int(full_scores(network, coords, window, [current, rest, partial, partial.roll(-1)]).argmax())
        tour.insert(place + 1, last)
    return tour


@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_greedy_tours_without_windows_are_the_published_ones(shared: Path, kind: str) -> None:
    """Argmax insertion on 30 nodes gives the reference's tours."""
    network, cases = published(shared, "tsp", kind)
    for row in range(4):
        assert (
            greedy_tsp(network, cases["tsp30.coords"][row], windows=False)
            == cases[f"greedy30.{kind}.tour"][row].tolist()
        )


@pytest.mark.parametrize("scaling", ["raw", "norm"])
@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_greedy_tours_with_windows_are_the_published_stable_ones(shared: Path, kind: str, scaling: str) -> None:
    """Argmax insertion on 60 nodes with ties to the lower position gives the reference's tours."""
    network, cases = published(shared, "tsp", kind)
    network.window_scaling = "axis" if scaling == "norm" else "none"
    wanted = cases[f"greedy60.knn_{scaling}_stable.{kind}.tour"]
    for row in (0, 3):
        assert greedy_tsp(network, cases["tsp60.coords"][row], windows=True) == wanted[row].tolist()


def cvrp_nodes(cases: dict[str, Tensor], size: int, row: int) -> tuple[Tensor, Tensor, int]:
    """Return nodes (x, y, demand over capacity), demand and capacity of a fixture's instance."""
    demand, capacity = cases[f"cvrp{size}.demand"][row], int(cases[f"cvrp{size}.capacity"][row])
    nodes = torch.cat([cases[f"cvrp{size}.coords"][row], (demand / capacity)[:, None]], dim=1)
    return nodes, demand, capacity


def routes_window(
    nodes: Tensor, tokens: Tensor, remaining: Tensor, current: Tensor, unvisited: Tensor, capacity: int
) -> Window:
    """Return the window of a whole CVRP state, everything in list order and padding hidden."""
    right = tokens.roll(-1)
    hidden = (tokens == 0) & (right == 0)
    hidden[-1] = False
    seen = torch.ones(1, len(unvisited), dtype=torch.bool)
    demand = int((nodes[current, 2] * capacity).round())
    allowed = ~hidden & (remaining >= demand)
    return Window(
        nodes[current][None], nodes[unvisited][None], seen, nodes[tokens][None], nodes[right][None],
        ~hidden[None], allowed[None], (remaining / capacity)[None],
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["base", "sharp"])
@pytest.mark.parametrize("case", [0, 1, 2, 3])
def test_cvrp_scores_of_whole_states_are_the_published_ones(shared: Path, kind: str, case: int) -> None:
    """Scores of all positions and of the new route agree, and full routes are masked."""
    network, cases = published(shared, "cvrp", kind)
    nodes, _, capacity = cvrp_nodes(cases, 20, case)
    tokens, remaining = cases[f"full.{case}.tokens"], cases[f"full.{case}.remaining"]
    current, unvisited = cases[f"full.{case}.current"].reshape(()), cases[f"full.{case}.unvisited"]
    window = routes_window(nodes, tokens, remaining, current, unvisited, capacity)
    found = full_scores(network, nodes, window, [current, unvisited, tokens, tokens.roll(-1)])
    assert close(found, cases[f"full.{case}.{kind}.logits_raw"], kind)
    found = found.masked_fill(~window.allowed[0], -torch.inf)
    assert close(found, cases[f"full.{case}.{kind}.logits"], kind)


@pytest.mark.parametrize("scaling", ["raw", "norm"])
@pytest.mark.parametrize("kind", ["base", "sharp"])
@pytest.mark.parametrize("case", [0, 1, 2, 3])
def test_cvrp_scores_of_windows_are_the_published_ones(shared: Path, kind: str, case: int, scaling: str) -> None:
    """The window by the repaired mask rule keeps the same positions, and probabilities agree."""
    network, cases = published(shared, "cvrp", kind)
    network.window_scaling = "axis" if scaling == "norm" else "none"
    nodes, demand, capacity = cvrp_nodes(cases, 40, case)
    tokens, remaining = cases[f"knn.{case}.tokens"], cases[f"knn.{case}.remaining"]
    current = cases[f"knn.{case}.current"].reshape(())
    open_nodes = torch.tensor([node for node in range(1, 41) if node not in {*tokens.tolist(), int(current)}])
    probabilities = cvrp_probabilities(network, nodes, demand, capacity, tokens, remaining, current, open_nodes)
    assert close(probabilities, cases[f"knn.{case}.{kind}.{scaling}.probs"], kind)


def cvrp_probabilities(
    network: InsertionNetwork,
    nodes: Tensor,
    demand: Tensor,
    capacity: int,
    tokens: Tensor,
    remaining: Tensor,
    current: Tensor,
    open_nodes: Tensor,
) -> Tensor:
    """Return the probability of every token's position; the last stands for the new route."""
    places, right = tokens[:-1], tokens.roll(-1)[:-1]
    real = (places != 0) | (right != 0)
    positions = Positions(
        nodes[places][None], nodes[right][None], real[None], (places == 0)[None], (right == 0)[None],
        remaining[:-1].long()[None],
    )  # fmt: skip
    rule = WindowRule(KNN, KNN, "polar", depot_is_near=True, show_full=True)
    # Without more positions than the limit the reference keeps them all, and counts the new route among them.
    if len(tokens) <= KNN:
        rule = replace(rule, positions=len(tokens))
    vehicle = Vehicle(nodes[:1], demand[current][None], torch.tensor([capacity]))
    seen = torch.ones(1, len(open_nodes), dtype=torch.bool)
    window, slots = take_window(rule, nodes[current][None], positions, nodes[open_nodes][None], seen, vehicle)
    return torch.zeros(len(tokens)).scatter(0, slots[0], network(window)[0].softmax(0))


@pytest.mark.parametrize("scaling", ["raw", "norm"])
@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_cvrp_windows_of_a_batch_do_not_depend_on_their_neighbours(shared: Path, kind: str, scaling: str) -> None:
    """Rows of different route counts get the probabilities of the repaired rule, alone or padded."""
    network, cases = published(shared, "cvrp", kind)
    network.window_scaling = "axis" if scaling == "norm" else "none"
    key = f"knnbatch.{kind}.{scaling}.probs_clean"
    if key not in cases:
        pytest.skip(f"the fixture has no {key}")
    for row in range(4):
        nodes, demand, capacity = cvrp_nodes(cases, 40, row)
        tokens, remaining = cases["knnbatch.tokens"][row], cases["knnbatch.remaining"][row]
        current = cases["knnbatch.current"][row].reshape(())
        open_nodes = torch.tensor([node for node in range(1, 41) if node not in {*tokens.tolist(), int(current)}])
        found = cvrp_probabilities(network, nodes, demand, capacity, tokens, remaining, current, open_nodes)
        assert close(found, cases[key][row], kind)


@pytest.mark.parametrize(("problem", "parameters"), [("tsp", 2_040_193), ("cvrp", 2_040_449)])
def test_the_defaults_are_the_papers_sizes(problem: str, parameters: int) -> None:
    """The network without options has as many parameters as the published one."""
    assert sum(parameter.numel() for parameter in InsertionNetwork(problem).parameters()) == parameters
