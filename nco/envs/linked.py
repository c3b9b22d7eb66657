"""Linked cyclic tours over one flat token space: in-place moves on whole batches, and walks.

A *token* stands on a cycle: ``succ`` and ``pred`` (int64 [F]) hold the next and the previous one, and a token that is
on no tour is a self loop. A batch of B tours with T tokens each is one flat space of F = B * T tokens, row b offset by
b * T: nothing here knows rows, so one call may change many tours, or one tour in many places.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def insert_after(succ: Tensor, pred: Tensor, left: Tensor, node: Tensor) -> None:
    """Link every node behind its left token, in place, in O(R).

    Gaps next to one another may be filled in one call: the right token of one may be the left token of another.

    Parameters
    ----------
    succ, pred : int64 [F]
    left : int64 [R]
        Distinct tokens; none of them is among ``node``.
    node : int64 [R]
        Distinct tokens that are on no tour.
    """
    right = succ[left]
    succ[left] = node
    pred[node] = left
    succ[node] = right
    pred[right] = node


def skip(pointer: Tensor, removed: Tensor) -> Tensor:
    """Make every pointer that leads to a removed token lead on to the first one that stays, in place.

    Pointer doubling: the pointers of removed tokens jump along with those of the kept ones, so a run of c removed
    tokens takes log2(c) rounds, each in the number of removed tokens.

    Parameters
    ----------
    pointer : int64 [F]
        ``succ`` to look ahead or ``pred`` to look back.
    removed : bool [F]

    Returns
    -------
    int64 [K]
        The kept tokens whose pointer has changed. Removed tokens' pointers lead to a kept one too, unless their whole
        cycle is removed.
    """
    leads_out = removed[pointer]
    changed = (leads_out & ~removed).nonzero().squeeze(1)
    jumping = torch.cat([changed, (leads_out & removed).nonzero().squeeze(1)])
    # Kept tokens decide when to stop: they have the furthest to go, and a cycle removed as a whole would jump for ever.
    while removed[pointer[changed]].any():
        target = pointer[jumping]
        pointer[jumping] = torch.where(removed[target], pointer[target], target)
    return changed


def unlink(succ: Tensor, pred: Tensor, removed: Tensor) -> None:
    """Take tokens out of their cycles and close up what stays, in place, in O(F + R log(longest removed run)).

    Removed tokens end as self loops. What stays of a cycle is one cycle in the old order. A cycle may be removed as a
    whole, so a caller whose tours must go on existing keeps at least one token of each.

    Parameters
    ----------
    succ, pred : int64 [F]
    removed : bool [F]
        R tokens; those that are on no tour already stay as they are.
    """
    left = skip(succ, removed)
    pred[succ[left]] = left
    taken = removed.nonzero().squeeze(1)
    succ[taken] = taken
    pred[taken] = taken


def cycle_ranks(pred: Tensor, is_start: Tensor) -> tuple[Tensor, Tensor]:
    """Count how far each token lies behind its cycle's start, by pointer doubling in O(F log(longest cycle)).

    Parameters
    ----------
    pred : int64 [F]
        Not changed.
    is_start : bool [F]
        One token of every cycle; tokens on no tour need none.

    Returns
    -------
    rank : int64 [F]
        0 for starts and self loops.
    start : int64 [F]
        The start of the token's cycle; a self loop's is itself.
    """
    tokens = torch.arange(len(pred), device=pred.device)
    start = torch.where(is_start, tokens, pred)
    rank = (start != tokens).long()
    for _ in range(len(pred).bit_length()):
        further = start[start]
        if torch.equal(further, start):
            break
        rank = rank + rank[start]
        start = further
    return rank, start


def cycle_order(succ: NDArray[np.int64], starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Walk each cycle from its start, on the CPU, in the number of tokens walked.

    Parameters
    ----------
    succ : int64 [F]
    starts : int64 [S]
        Tokens of S different cycles.

    Returns
    -------
    order : int64 [sum of the cycles' lengths]
        The cycles one after another, each from its start.
    offsets : int64 [S + 1]
        Cycle i is ``order[offsets[i] : offsets[i + 1]]``.

    Raises
    ------
    ValueError
        If two starts lie on one cycle, or ``succ`` is no set of cycles.
    """
    order = np.empty(len(succ), dtype=np.int64)
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    total = _walker()(np.asarray(succ), np.asarray(starts), order, offsets)
    if total < 0:
        raise ValueError("two starts lie on one cycle, or the links do not close")
    return order[:total], offsets


@cache
def _walker() -> Callable[..., Any]:
    from numba import njit

    @njit(cache=True)
    def walk(succ, starts, order, offsets):  # type: ignore[no-untyped-def]
        total = 0
        for i in range(len(starts)):
            token = starts[i]
            while True:
                if total == len(order):
                    return -1
                order[total] = token
                total += 1
                token = succ[token]
                if token == starts[i]:
                    break
            offsets[i + 1] = total
        return total

    return walk
