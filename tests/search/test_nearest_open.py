"""The nearest open points, against a scan of all points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nco.search.nearest_open import close, find_nearest, open_points


def scan(points: NDArray[np.float64], is_open: NDArray[np.bool_], at: NDArray[np.float64], k: int) -> list[int]:
    """Return the k nearest open points, ties to the lower number, and -1 where there are fewer."""
    offset = points - at
    order = np.lexsort((np.arange(len(points)), offset[:, 0] ** 2 + offset[:, 1] ** 2))
    found = [int(number) for number in order if is_open[number]][:k]
    return found + [-1] * (k - len(found))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    size=st.integers(1, 120),
    side=st.sampled_from([1, 3, 10, 10**6]),
    k=st.integers(1, 130),
    seed=st.integers(0, 10**6),
)
def test_every_search_equals_a_scan(size: int, side: int, k: int, seed: int) -> None:
    """Until the last point is closed, with few or many coinciding and equally distant points."""
    rng = np.random.default_rng(seed)
    points = rng.integers(side, size=(2, size, 2)).astype(float)
    is_open = np.ones((2, size), dtype=bool)
    trees = open_points(points)
    for _ in range(size + 1):
        at = points[:, rng.integers(size)] if rng.random() < 0.5 else rng.uniform(-1, side, (2, 2))
        found = find_nearest(trees, at, k)
        for row in range(2):
            assert found[row].tolist() == scan(points[row], is_open[row], at[row], k)
            if is_open[row].any():
                chosen = rng.choice(np.flatnonzero(is_open[row]))
                close(trees, row, chosen)
                is_open[row, chosen] = False


def test_the_last_points_of_a_large_set_are_found() -> None:
    """With three points left of 5,000, far apart, they are what is found, nearest first."""
    points = np.random.default_rng(0).random((1, 5_000, 2))
    trees = open_points(points)
    kept = [17, 2_500, 4_999]
    for number in set(range(5_000)) - set(kept):
        close(trees, 0, number)
    at = points[:, 0]
    nearest_first = sorted(kept, key=lambda number: float(((points[0, number] - at[0]) ** 2).sum()))
    assert find_nearest(trees, at, 5)[0].tolist() == [*nearest_first, -1, -1]


def test_padding_of_shorter_rows_is_never_found() -> None:
    """A row of two points beside one of nine has two."""
    points = np.zeros((2, 9, 2))
    found = find_nearest(open_points(points, np.array([9, 2])), np.zeros((2, 2)), 9)
    assert found[0].tolist() == list(range(9))
    assert found[1].tolist() == [0, 1, -1, -1, -1, -1, -1, -1, -1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_points_given_are_not_changed(dtype: type) -> None:
    """Trees order a copy."""
    points = np.random.default_rng(1).random((1, 50, 2)).astype(dtype)
    before = points.copy()
    open_points(points)
    assert np.array_equal(points, before)
