"""Linked cyclic tours: insertion, removal and walks, against lists of tokens."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.envs import linked

SETTINGS = settings(derandomize=True, deadline=None, max_examples=60)


def link(cycles: list[list[int]], num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return succ and pred of the cycles; all other tokens are self loops."""
    succ, pred = torch.arange(num_tokens), torch.arange(num_tokens)
    for cycle in cycles:
        for token, following in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            succ[token], pred[following] = following, token
    return succ, pred


@st.composite
def cycle_sets(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """Draw disjoint cycles over a flat space that also has tokens on no tour."""
    num_tokens = draw(st.integers(1, 24))
    tokens = draw(st.permutations(range(num_tokens)))
    cuts = sorted(draw(st.sets(st.integers(1, num_tokens), max_size=5)))
    return [list(tokens[a:b]) for a, b in pairwise([0, *cuts])], num_tokens


@given(cycle_sets(), st.data())
@SETTINGS
def test_insert_after_fills_all_gaps_in_one_call(drawn: tuple[list[list[int]], int], data: st.DataObject) -> None:
    """Nodes land behind their left tokens, gaps next to one another included."""
    cycles, num_tokens = drawn
    on_tour = [token for cycle in cycles for token in cycle]
    lefts = data.draw(st.lists(st.sampled_from(on_tour), unique=True)) if on_tour else []
    nodes = list(range(num_tokens, num_tokens + len(lefts)))
    succ, pred = link(cycles, num_tokens + len(lefts))
    linked.insert_after(succ, pred, torch.tensor(lefts, dtype=torch.long), torch.tensor(nodes, dtype=torch.long))
    behind = dict(zip(lefts, nodes, strict=True))
    filled = [[t for token in cycle for t in (token, behind.get(token)) if t is not None] for cycle in cycles]
    expected = link(filled, num_tokens + len(lefts))
    assert torch.equal(succ, expected[0])
    assert torch.equal(pred, expected[1])


@given(cycle_sets(), st.data())
@SETTINGS
def test_unlink_closes_up_what_stays(drawn: tuple[list[list[int]], int], data: st.DataObject) -> None:
    """Kept tokens keep their cyclic order and removed ones become self loops, whole cycles included."""
    cycles, num_tokens = drawn
    removed = torch.tensor(data.draw(st.lists(st.booleans(), min_size=num_tokens, max_size=num_tokens)))
    succ, pred = link(cycles, num_tokens)
    linked.unlink(succ, pred, removed)
    expected = link([[t for t in cycle if not removed[t]] for cycle in cycles], num_tokens)
    assert torch.equal(succ, expected[0])
    assert torch.equal(pred, expected[1])


def test_unlink_closes_a_run_of_thousands() -> None:
    """A cycle of 5,000 tokens of which two stay is closed up, across the wrap of its ends too."""
    succ, pred = link([list(range(5000))], 5000)
    removed = torch.ones(5000, dtype=torch.bool)
    removed[[1200, 1300]] = False
    linked.unlink(succ, pred, removed)
    assert succ[[1200, 1300]].tolist() == pred[[1200, 1300]].tolist() == [1300, 1200]


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(lambda removed: not all(removed)))
@SETTINGS
def test_skip_looks_back_from_every_token(removed: list[bool]) -> None:
    """On the predecessors, skip finds the nearest kept token before each one, before removed ones too."""
    size = len(removed)
    _, pred = link([list(range(size))], size)
    linked.skip(pred, torch.tensor(removed))
    for token in range(size):
        before = (token - 1) % size
        while removed[before]:
            before = (before - 1) % size
        assert int(pred[token]) == before


@given(cycle_sets(), st.data())
@SETTINGS
def test_ranks_and_order_agree_with_the_cycles(drawn: tuple[list[list[int]], int], data: st.DataObject) -> None:
    """Both walks visit each cycle from the given start, in its order."""
    cycles, num_tokens = drawn
    turns = [data.draw(st.integers(0, len(cycle) - 1)) for cycle in cycles]
    turned = [cycle[turn:] + cycle[:turn] for cycle, turn in zip(cycles, turns, strict=True)]
    starts = [cycle[0] for cycle in turned]
    succ, pred = link(cycles, num_tokens)

    order, offsets = linked.cycle_order(succ.numpy(), np.array(starts, dtype=np.int64))
    assert [order[a:b].tolist() for a, b in pairwise(offsets)] == turned

    is_start = torch.zeros(num_tokens, dtype=torch.bool)
    is_start[starts] = True
    rank, start = linked.cycle_ranks(pred, is_start)
    found = {token: (int(rank[token]), int(start[token])) for token in range(num_tokens)}
    on_tour = {token: (i, cycle[0]) for cycle in turned for i, token in enumerate(cycle)}
    assert found == {token: on_tour.get(token, (0, token)) for token in range(num_tokens)}


def test_cycle_order_refuses_two_starts_on_one_cycle() -> None:
    """A cycle that would be walked twice is an error, not a repeated tour."""
    succ, _ = link([[0, 1, 2]], 4)
    with pytest.raises(ValueError, match="one cycle"):
        linked.cycle_order(succ.numpy(), np.array([0, 2]))


def test_cycle_order_refuses_links_that_do_not_close() -> None:
    """Links that run into a loop away from the start are an error, not an endless walk."""
    with pytest.raises(ValueError, match="do not close"):
        linked.cycle_order(np.array([1, 2, 1]), np.array([0]))
