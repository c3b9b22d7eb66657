"""The insertion network against the published numbers, and its options."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from nco.models.l2c_insert.network import InsertionNetwork
from nco.models.l2c_insert.pretrained import from_authors
from nco.models.l2c_insert.sampling import StateSampler, TrainingStates
from nco.models.labelled import LabelledBatch, label_sequence
from nco.search.window import Positions, Vehicle, Window, WindowRule, take_window

# Weights as drawn, as the fixtures recommend; and with every matrix multiplied by a factor. Such steep networks are off
# by up to 3e-3 in single precision, differently on every processor, and the reference by up to 6e-4. A wrong token
# changes scores by more than 2e-1.
TOLERANCE = {"base": 1e-6, "sharp": 1e-2}
KNN = 10


read = cache(load_file)


def published(shared: Path, problem: str, kind: str) -> tuple[InsertionNetwork, dict[str, Tensor]]:
    """Return the fixture's network and its cases."""
    weights, cases = (read(shared / "parity" / f"l2c_{problem}_{part}.safetensors") for part in ("weights", "cases"))
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
    kept, kept_nodes = cases[f"knn.{case}.kept_gaps"], cases[f"knn.{case}.kept_nodes"]
    assert sorted(slots[0].tolist()) == sorted(kept.tolist())
    assert torch.equal(window.unvisited[0], coords[kept_nodes])
    # The sharp networks are so steep that the order of a sum matters: tokens in the order of the reference.
    order = torch.tensor([slots[0].tolist().index(position) for position in kept.tolist()])
    window = replace(window, left=window.left[:, order], right=window.right[:, order])
    assert close(network(window)[0], cases[f"knn.{case}.{kind}.{scaling}.logits"], kind)


@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_tsp_training_states_have_the_published_labels(shared: Path, kind: str) -> None:
    """The sampler's target is the reference's, and so is the probability that its loss is made of."""
    network, cases = published(shared, "tsp", kind)
    for row in range(4):
        coords, partial = cases["tsp30.coords"][row], cases["batch.partial"][row]
        current, unvisited = cases["batch.current"][row], cases["batch.unvisited"][row]
        label = int(cases["batch.label_gap"][row])
        states = sampled_state(LabelledBatch(coords[None], cases["batch.label_tour"][row][None]), current, unvisited)
        (slot,) = torch.nonzero(states.target[0]).flatten().tolist()
        ends = torch.stack([states.window.left[0, slot], states.window.right[0, slot]])
        assert torch.equal(ends, coords[partial.roll(-label)[:2]])
        window = cycle_window(coords, partial, current, unvisited)
        scores = full_scores(network, coords, window, [current, unvisited, partial, partial.roll(-1)])
        assert close(scores.softmax(0)[label], cases[f"batch.{kind}.label_prob"][row], kind)


def sampled_state(batch: LabelledBatch, current: Tensor, unvisited: Tensor) -> TrainingStates:
    """Return the sampler's state of one instance in which these nodes are not placed, everything in view."""
    is_cvrp = int(batch.demand is not None)
    sequence, route = label_sequence(batch, torch.Generator().manual_seed(0))
    times = torch.zeros_like(sequence)
    times[0, current - is_cvrp] = 1
    times[0, unvisited - is_cvrp] = 2
    sampler = StateSampler(WindowRule(1000, 1000, show_full=True))
    first = torch.zeros(1, dtype=torch.long)
    if not is_cvrp:
        sequence = batch.tours  # forward, so that ends come in the order of the label
    return sampler._states(batch, times, first + 1, sequence, route, first)


def tsp_window(coords: Tensor, partial: Tensor, current: Tensor, open_nodes: Tensor) -> tuple[Window, Tensor]:
    """Return the nearest 10 positions and 10 nodes."""
    ends = coords[partial][None], coords[partial.roll(-1)][None]
    positions = Positions(*ends, torch.ones(1, len(partial), dtype=torch.bool))
    seen = torch.ones(1, len(open_nodes), dtype=torch.bool)
    window, slots = take_window(WindowRule(KNN, KNN), coords[current][None], positions, coords[open_nodes][None], seen)
    # What is not reduced stays in list order.
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
    for row in (0, 1):
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
    assert greedy_tsp(network, cases["tsp60.coords"][3], windows=True) == wanted[3].tolist()


def cvrp_nodes(cases: dict[str, Tensor], size: int, row: int) -> tuple[Tensor, Tensor, int]:
    """Return nodes (x, y, demand over capacity), demand and capacity of a fixture's instance."""
    demand, capacity = cases[f"cvrp{size}.demand"][row], int(cases[f"cvrp{size}.capacity"][row])
    nodes = torch.cat([cases[f"cvrp{size}.coords"][row], (demand / capacity)[:, None]], dim=1)
    return nodes, demand, capacity


def polar_angles(nodes: Tensor) -> Tensor:
    """Return the angles of nodes about the depot, whose own is 0."""
    vectors = nodes[1:, :2] - nodes[0, :2]
    return torch.cat([torch.zeros(1), torch.atan2(vectors[:, 1], vectors[:, 0])])


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
    if len(open_nodes) > KNN:
        # The reference does not wrap differences of angles.
        angle = polar_angles(nodes)
        open_nodes = open_nodes[(angle[open_nodes] - angle[current]).abs().argsort(stable=True)[:KNN]]
    vehicle = Vehicle(nodes[:1], demand[current][None], torch.tensor([capacity]))
    seen = torch.ones(1, len(open_nodes), dtype=torch.bool)
    window, slots = take_window(rule, nodes[current][None], positions, nodes[open_nodes][None], seen, vehicle)
    window = replace(window, unvisited=nodes[open_nodes][None])
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


def remaining_capacity(tokens: list[int], demand: Tensor, capacity: int) -> Tensor:
    """Return what is left on the route of each token's position; the last is the new route."""
    route = torch.tensor(tokens).eq(0).cumsum(0)
    load = torch.zeros(len(tokens) + 1, dtype=demand.dtype).index_add(0, route, demand[tokens])
    left = capacity - load[route]
    left[-1] = capacity
    return left


def greedy_cvrp(
    network: InsertionNetwork, nodes: Tensor, demand: Tensor, capacity: int, windows: bool
) -> list[list[int]]:
    """Build routes as released: the open customer next in polar angle, not wrapped, at the best position."""
    angle = polar_angles(nodes)
    tokens, last = [0], 0
    open_nodes = list(range(1, len(nodes)))
    while open_nodes:
        last = open_nodes.pop(int((angle[open_nodes] - angle[last]).abs().argmin()))
        placed, rest = torch.tensor(tokens), torch.tensor(open_nodes, dtype=torch.long)
        left, current = remaining_capacity(tokens, demand, capacity), torch.tensor(last)
        if len(tokens) == 1:
            place = 0
        elif windows:
            place = int(cvrp_probabilities(network, nodes, demand, capacity, placed, left, current, rest).argmax())
        else:
            window = routes_window(nodes, placed, left, current, rest, capacity)
            scores = full_scores(network, nodes, window, [current, rest, placed, placed.roll(-1)])
            place = int(scores.masked_fill(~window.allowed[0], -torch.inf).argmax())
        tokens.insert(place + 1, last)
        if tokens[-1] != 0:
            tokens.append(0)
    return [[node, int(tokens[place] == 0)] for place, node in enumerate(tokens[1:]) if node]


@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_greedy_routes_without_windows_are_the_published_ones(shared: Path, kind: str) -> None:
    """Argmax insertion of 20 customers gives the reference's routes."""
    network, cases = published(shared, "cvrp", kind)
    for row in (0, 1):
        found = greedy_cvrp(network, *cvrp_nodes(cases, 20, row), windows=False)
        assert found == cases[f"greedy20.{kind}.solution"][row].tolist()


@pytest.mark.parametrize("scaling", ["raw", "norm"])
@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_greedy_routes_with_windows_are_the_published_clean_ones(shared: Path, kind: str, scaling: str) -> None:
    """Argmax insertion of 40 customers by the repaired mask rule gives the reference's routes."""
    network, cases = published(shared, "cvrp", kind)
    network.window_scaling = "axis" if scaling == "norm" else "none"
    row = 0
    found = greedy_cvrp(network, *cvrp_nodes(cases, 40, row), windows=True)
    assert found == cases[f"greedy40.knn_{scaling}_clean.{kind}.solution"][row].tolist()


@pytest.mark.parametrize("kind", ["base", "sharp"])
def test_cvrp_training_states_have_the_published_labels(shared: Path, kind: str) -> None:
    """The sampler's target is the reference's, and so is the probability that its loss is made of."""
    network, cases = published(shared, "cvrp", kind)
    for row in range(4):
        nodes, demand, capacity = cvrp_nodes(cases, 20, row)
        current, unvisited = cases["label.current"][row], cases["label.unvisited"][row]
        tokens, label = cases["label.tokens"][row], int(cases["label.label_gap"][row])
        tour = [
            node for customer, first in cases["label.label_solution"][row].tolist() for node in [0] * first + [customer]
        ]
        batch = LabelledBatch(
            nodes[None, :, :2], torch.tensor([[*tour, 0]]), demand[None].long(), torch.tensor([capacity])
        )
        states = sampled_state(batch, current, unvisited)
        slots = torch.nonzero(states.target[0]).flatten().tolist()
        wanted = {int(tokens[label]), int(tokens[(label + 1) % len(tokens)])}
        if label == len(tokens) - 1:
            assert slots == [states.target.shape[1] - 1]
        else:
            for slot in slots:
                ends = torch.stack([states.window.left[0, slot], states.window.right[0, slot]])
                assert {int((nodes - end).abs().sum(1).argmin()) for end in ends} == wanted
        window = routes_window(nodes, tokens, cases["label.remaining"][row], current, unvisited, capacity)
        scores = full_scores(network, nodes, window, [current, unvisited, tokens, tokens.roll(-1)])
        scores = scores.masked_fill(~window.allowed[0], -torch.inf)
        assert close(scores.softmax(0)[label], cases[f"label.{kind}.label_prob"][row], kind)


@pytest.mark.parametrize(("problem", "parameters"), [("tsp", 2_040_193), ("cvrp", 2_040_449)])
def test_the_defaults_are_the_papers_sizes(problem: str, parameters: int) -> None:
    """The network without options has as many parameters as the published one."""
    assert sum(parameter.numel() for parameter in InsertionNetwork(problem).parameters()) == parameters
