"""The training of LEHD: data options, what it learns, and its validation."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from nco.data.labels import LabelledSet
from nco.errors import UsageError
from nco.models.lehd.data import LehdData
from nco.models.lehd.network import LehdNetwork
from nco.models.lehd.sampling import SegmentSampler
from nco.models.lehd.validation import HeldOut, validation_gaps
from nco.models.streams import StateStream
from nco.models.training import target_loss
from nco.search.candidates import nearest_first

CPU = torch.device("cpu")


def ring(rows: int = 1, nodes: int = 16, seed: int = 0) -> LabelledSet:
    """Return TSPs of points on a circle, whose best tour goes around it."""
    rng = np.random.default_rng(seed)
    angle = rng.random((rows, nodes)) * 2 * np.pi
    coords = 0.5 + 0.5 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return LabelledSet(coords.astype(np.float32), angle.argsort(axis=1))


def arms(rows: int = 1, seed: int = 0) -> LabelledSet:
    """Return CVRPs of three arms about the depot, whose best routes each go out on one arm and come back."""
    rng = np.random.default_rng(seed)
    places = []
    for _ in range(rows):
        turn = rng.random() * 2 * np.pi
        angle = turn + np.repeat(np.arange(3), 4) * 2 * np.pi / 3 + np.tile([-0.1, -0.1, 0.1, 0.1], 3)
        radius = np.tile([0.3, 0.5, 0.5, 0.3], 3)
        places.append(0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    coords = np.concatenate([np.full((rows, 1, 2), 0.5), np.array(places)], axis=1).astype(np.float32)
    tours = np.tile([0, 1, 2, 3, 4, 0, 5, 6, 7, 8, 0, 9, 10, 11, 12, 0], (rows, 1))
    demand = np.tile([0] + [2] * 12, (rows, 1))
    return LabelledSet(coords, tours, demand, np.full(rows, 9))


def learn(problem: str, labels: LabelledSet, steps: int, k: int) -> tuple[LehdNetwork, list[float]]:
    """Train a small network, and return it with its losses."""
    torch.manual_seed(0)
    network = LehdNetwork(problem, 32, 2, 16, 64, 0, 2, "isotropic", softened=True, geometry=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    losses = []
    for batch in islice(StateStream(labels, SegmentSampler(k, 0.5), 64, 64, 4, "rotation", (0,)), steps):
        loss = target_loss(network(batch.candidates), batch.target).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return network, losses


@pytest.mark.parametrize(("problem", "labels", "worst"), [("tsp", ring(), 2.0), ("cvrp", arms(), 2.0)])
def test_training_on_one_instance_learns_it(problem: str, labels: LabelledSet, worst: float) -> None:
    """In 250 steps the loss all but vanishes, and greedy decoding finds the label's cost, which it did not before."""
    held_out = HeldOut.take(labels, 20)
    network, losses = learn(problem, labels, 250, 20)
    before, _ = validation_gaps(LehdNetwork(problem, 32, 2, 16, 64, 0, 2), held_out, 0, CPU)
    after, _ = validation_gaps(network, held_out, 0, CPU)
    assert np.mean(losses[-20:]) < 0.2 * np.mean(losses[:5])
    assert before > 10
    assert after < worst


def test_gaps_are_measured_against_the_labels() -> None:
    """Of two instances, one with the best tour as label and one with a label twice as long."""
    labels = ring(2)
    held_out = HeldOut.take(labels, 20)
    doubled = HeldOut(held_out.instances, held_out.costs * [1, 2], 20)
    greedy, final = validation_gaps(nearest_first, held_out, 20, CPU)
    halved, none = validation_gaps(nearest_first, doubled, 0, CPU)
    assert none is None
    assert final is not None
    assert 0 <= final <= greedy
    # The second instance's gap g becomes (1 + g) / 2 - 1.
    first, second = (held_out.instances[row : row + 1] for row in (0, 1))
    each = [
        validation_gaps(nearest_first, HeldOut(one, held_out.costs[row : row + 1], 20), 0, CPU)[0]
        for row, one in enumerate((first, second))
    ]
    assert halved == pytest.approx((each[0] + (100 + each[1]) / 2 - 100) / 2)


@pytest.mark.parametrize(
    "options", [{"augmentation": "mirror"}, {"k": 0}, {"batch_size": 0}, {"whole_share": 1.5}, {"whole_share": -0.1}]
)
def test_impossible_data_options_are_refused(options: dict) -> None:
    """The message names the option."""
    with pytest.raises(UsageError, match=next(iter(options))):
        LehdData([], **options)


def test_validation_sees_both_kinds_of_states_and_instances_to_solve() -> None:
    """Two states of each held-out instance and kind, the same every time; whole tours among the second kind only."""
    data = LehdData([], k=20, validation_instances=2)
    data.training = data.held_out = ring(30)
    segments, whole, solved = data.val_dataloader()
    (of_segments,), (of_whole,), (held_out,) = segments, whole, solved
    assert len(of_segments) == len(of_whole) == 60
    closed = [(part.candidates.first == part.candidates.last).all(dim=1).any() for part in (of_segments, of_whole)]
    assert [bool(found) for found in closed] == [False, True]
    assert (len(held_out), held_out.k) == (2, 20)
    (again,) = data.val_dataloader()[1]
    assert torch.equal(again.candidates.nodes, of_whole.candidates.nodes)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_every_tensor_of_a_training_names_its_device(problem: str) -> None:
    """Sampling, a training step and a validation work where the default device is another one."""
    labels = ring(6) if problem == "tsp" else arms(6)
    network = LehdNetwork(problem, 8, 2, 4, 8, 1, 1, "centred", True, True, True, True, True)
    with torch.device("meta"):
        pool = StateStream(labels, SegmentSampler(6), 4, 5, 2, "square", (0,), CPU).pool(0)
        loss = target_loss(network(pool.candidates), pool.target).mean()
        loss.backward()
        assert loss.device == CPU
        greedy, final = validation_gaps(network, HeldOut.take(labels, 6), 2, CPU)
    assert final is not None
    assert final <= greedy
