"""Loss, schedule, stream of states and validation of the insertion network's training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nco.data.labels import LabelledSet
from nco.errors import UsageError
from nco.models.l2c_insert.data import InsertionData
from nco.models.l2c_insert.module import InsertionModule
from nco.models.l2c_insert.network import InsertionNetwork
from nco.models.l2c_insert.sampling import StateSampler, TrainingStates
from nco.models.l2c_insert.validation import HeldOut, validation_gaps
from nco.models.labelled import augment, labelled_batch
from nco.models.streams import StateStream
from nco.models.training import target_loss
from nco.search.window import WindowRule, cheapest_insertion

CPU = torch.device("cpu")


def ring(rows: int = 1, nodes: int = 16, seed: int = 0) -> LabelledSet:
    """Return TSPs of points on a circle, whose best tour goes around it."""
    rng = np.random.default_rng(seed)
    angle = rng.random((rows, nodes)) * 2 * np.pi
    coords = 0.5 + 0.5 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return LabelledSet(coords.astype(np.float32), angle.argsort(axis=1))


def routes(rows: int = 6, customers: int = 12, seed: int = 0) -> LabelledSet:
    """Return random CVRPs with routes of three customers."""
    rng = np.random.default_rng(seed)
    demand = np.concatenate([np.zeros((rows, 1), np.int64), rng.integers(1, 5, (rows, customers))], axis=1)
    tour = np.zeros((rows, customers + customers // 3 + 1), np.int64)
    tour[:, np.arange(tour.shape[1]) % 4 > 0] = np.arange(1, customers + 1)
    return LabelledSet(
        rng.random((rows, customers + 1, 2), dtype=np.float32), tour, demand, np.full(rows, 20, dtype=np.int64)
    )


def stream(labels: LabelledSet, seed: tuple[int, ...] = (1, 0), consumed: int = 0) -> StateStream:
    """Return a stream of batches of 4 states out of pools of 10."""
    sampler = StateSampler(WindowRule(6, 3), 0.5, (2, 5))
    return StateStream(labels, sampler, 4, 5, 2, "rotation", seed, CPU, lambda: consumed)


def same_states(one: TrainingStates, other: TrainingStates) -> bool:
    """Compare bit for bit."""
    return torch.equal(one.target, other.target) and torch.equal(one.window.left, other.window.left)


def test_the_loss_is_the_cross_entropy_of_all_target_positions() -> None:
    """By hand: softmax of (0, log 2, log 3, hidden) is 1/6, 2/6, 3/6 and 0."""
    scores = torch.tensor([[0.0, math.log(2), math.log(3), -math.inf]]).repeat(3, 1)
    target = torch.tensor([[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool)
    wanted = torch.tensor([math.log(3), -math.log(4 / 6), 0.0])
    torch.testing.assert_close(target_loss(scores, target), wanted)


def test_the_loss_without_a_target_has_no_gradient() -> None:
    """A window that does not show the label teaches nothing, and spoils nothing."""
    scores = torch.randn(2, 3, requires_grad=True)
    target_loss(scores, torch.tensor([[False] * 3, [True, False, False]])).sum().backward()
    assert scores.grad is not None
    assert bool((scores.grad[0] == 0).all())
    assert bool(scores.grad[1].isfinite().all())
    assert bool((scores.grad[1] != 0).all())


@pytest.mark.parametrize(
    ("decay", "middle", "end"), [("cosine", 0.505, 0.01), ("exponential", 0.1, 0.01), ("constant", 1.0, 1.0)]
)
def test_the_learning_rate_rises_and_decays(decay: str, middle: float, end: float) -> None:
    """Linear to the peak over the warm-up's share of the steps, then down to the final share of the peak."""
    module = InsertionModule("tsp", dim=8, heads=1, decoder_layers=1, warmup=0.1, decay=decay, final_rate=0.01)
    rates = [module.rate_factor(step, 100) for step in range(102)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(middle)
    assert rates[100] == pytest.approx(end)
    assert rates[101] == rates[100]


def test_an_unknown_decay_is_refused() -> None:
    """The message lists those that are known."""
    with pytest.raises(UsageError, match="cosine, exponential, constant"):
        InsertionModule("tsp", decay="linear")


@pytest.mark.parametrize("consumed", [1, 2, 3, 7])
def test_a_stream_can_start_at_any_batch(consumed: int) -> None:
    """From batch k on, in the middle of a pool or at its border, it is the tail of the whole stream."""
    labels = ring(8)
    whole = list(islice(stream(labels), consumed + 3))
    tail = list(islice(stream(labels, consumed=consumed), 3))
    assert all(map(same_states, whole[consumed:], tail))
    assert not same_states(whole[consumed], whole[consumed - 1])


def test_a_pool_too_small_for_a_batch_is_refused() -> None:
    """The stream would otherwise be without batches."""
    with pytest.raises(UsageError, match="does not fill a batch"):
        StateStream(ring(), StateSampler(), 100, 5, 2, "none", (0,))


def test_ranks_see_different_batches() -> None:
    """Each process of a distributed training has a stream of its own, and the same one again."""
    first = []
    for rank in (0, 1, 1):
        data = InsertionData([], batch_size=4, positions=6, unvisited=3, pool_instances=5, states_per_instance=2)
        data.training = data.held_out = ring(8)
        progress = SimpleNamespace(state_dict=lambda: {"total": {"processed": 0}})
        fit_loop = SimpleNamespace(epoch_loop=SimpleNamespace(batch_progress=progress))
        data.trainer = SimpleNamespace(  # type: ignore[assignment]
            global_rank=rank, strategy=SimpleNamespace(root_device=CPU), fit_loop=fit_loop
        )
        first.append(next(iter(data.train_dataloader().dataset)))
    assert not same_states(first[0], first[1])
    assert same_states(first[1], first[2])


@pytest.mark.parametrize("augmentation", ["square", "rotation"])
def test_augmentation_keeps_shapes(augmentation: str) -> None:
    """All distances stay, points move, and the square's symmetries stay in the square."""
    coords = torch.rand(20, 9, 2, generator=torch.Generator().manual_seed(0))
    seen = augment(coords, augmentation, torch.Generator().manual_seed(1))
    torch.testing.assert_close(torch.cdist(seen, seen), torch.cdist(coords, coords), atol=1e-5, rtol=0)
    assert not torch.allclose(seen, coords)
    inside = bool(((seen > -1e-6) & (seen < 1 + 1e-6)).all())
    assert inside == (augmentation == "square")


@pytest.mark.parametrize(
    "options",
    [
        {"augmentation": "mirror"},
        {"chain_order": "random"},
        {"batch_size": 0},
        {"hole_sizes": (5, 4)},
        {"hole_share": 1.5},
    ],
)
def test_impossible_data_options_are_refused(options: dict) -> None:
    """The message names the option."""
    with pytest.raises(UsageError, match=next(iter(options))):
        InsertionData([], **options)


def test_training_on_one_instance_learns_it() -> None:
    """In 200 steps the loss all but vanishes, and greedy insertion finds the label's tour from a bad start."""
    torch.manual_seed(0)
    labels = ring()
    network = InsertionNetwork("tsp", 32, 2, 16, 64, 0, 2, window_scaling="none")
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    held_out = HeldOut.take(labels, WindowRule(20, 20), "nearest", (2, 8))
    before, _ = validation_gaps(network, held_out, 0, CPU)
    losses = []
    batches = StateStream(labels, StateSampler(WindowRule(20, 20), 0.5, (2, 8)), 64, 64, 4, "none", (0,))
    for batch in islice(batches, 200):
        loss = target_loss(network(batch.window), batch.target).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    after, _ = validation_gaps(network, held_out, 0, CPU)
    assert np.mean(losses[:5]) > 1.0
    assert np.mean(losses[-20:]) < 0.15
    assert before > 10
    assert after < 3


def test_gaps_are_measured_against_the_labels() -> None:
    """Of two instances, one with the best tour as label and one with a label twice as long."""
    labels = ring(2)
    held_out = HeldOut.take(labels, WindowRule(20, 20), "nearest", (2, 8))
    doubled = HeldOut(held_out.instances, held_out.costs * [1, 2], *(
        getattr(held_out, name) for name in ("construction", "reconstruction", "regions")
    ))  # fmt: skip
    greedy, final = validation_gaps(cheapest_insertion, held_out, 20, CPU)
    # Cheapest insertion is exact on points in convex position.
    assert greedy == pytest.approx(0, abs=1e-4)
    assert final == pytest.approx(0, abs=1e-4)
    assert validation_gaps(cheapest_insertion, doubled, 0, CPU) == (pytest.approx(-25, abs=1e-3), None)


@contextmanager
def no_default_device() -> Iterator[None]:
    """Let every tensor that is created without a device fail to mix with those of the CPU."""
    with torch.device("meta"):
        yield


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_every_tensor_of_a_training_names_its_device(problem: str) -> None:
    """Sampling, a training step and a validation work where the default device is another one."""
    labels = ring(6) if problem == "tsp" else routes()
    network = InsertionNetwork(problem, 8, 2, 4, 8, 1, 1, "centred", True, True, True, True)
    order = "nearest" if problem == "tsp" else "polar"
    sampler = StateSampler(WindowRule(6, 3), 0.5, (2, 5), order)
    with no_default_device():
        batch = labelled_batch(labels, torch.arange(6, device=CPU), CPU)
        coords = augment(batch.coords, "rotation", torch.Generator(CPU).manual_seed(0))
        assert coords.device == CPU
        pool = StateStream(labels, sampler, 4, 5, 2, "square", (0,), CPU).pool(0)
        loss = target_loss(network(pool.window), pool.target).mean()
        loss.backward()
        assert loss.device == CPU
        held_out = HeldOut.take(labels, WindowRule(6, 3), order, (2, 5))
        greedy, final = validation_gaps(network, held_out, 2, CPU)
    assert final is not None
    assert final <= greedy
