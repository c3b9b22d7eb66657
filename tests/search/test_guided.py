"""Heat-guided local search of TSP tours."""

from __future__ import annotations

import numpy as np
import pytest

from nco.instance import InstanceBatch
from nco.search.guided import Guidance, TourSearch, heat_distances
from nco.search.heat import SparseHeat, distance_heat
from nco.search.space import plane
from nco.search.tsp_descent import tour_length
from nco.search.tsp_local_search import local_search_many


def batch_of(rows: int, size: int) -> tuple[list, SparseHeat]:
    """Return spaces of uniform points and their distance heats."""
    import torch

    coords = np.random.default_rng([rows, size]).random((rows, size, 2))
    batch = InstanceBatch(torch.from_numpy(coords).float())
    return [plane(points) for points in coords], distance_heat(batch, 8)


def lengths(spaces: list, tours: np.ndarray) -> np.ndarray:
    """Return the lengths of tours [B, h, N]."""
    return np.array(
        [[tour_length(space, tour) for tour in of_row] for space, of_row in zip(spaces, tours, strict=True)]
    )


def test_guided_tours_are_never_longer_than_local_optima() -> None:
    """The first local optimum is that of the plain search, and perturbations shorten most of them."""
    spaces, heat = batch_of(2, 150)
    rng = np.random.default_rng(0)
    tours = np.stack([[rng.permutation(150) for _ in range(6)] for _ in range(2)])
    plain = lengths(spaces, local_search_many(spaces, tours))
    found = TourSearch(spaces, heat, Guidance(5, 20))(tours, rng)
    assert (np.sort(found) == np.arange(150)).all()
    guided = lengths(spaces, found)
    assert (guided <= plain + 1e-9).all()
    assert (guided < plain - 1e-9).mean() > 0.7


def test_no_rounds_are_the_plain_search() -> None:
    """Without perturbations it needs no heat."""
    spaces, _ = batch_of(2, 40)
    tours = np.stack([[np.random.default_rng(row).permutation(40)] for row in range(2)])
    found = TourSearch(spaces)(tours, np.random.default_rng(0))
    assert np.array_equal(found, local_search_many(spaces, tours))


def test_threads_change_nothing_and_seeds_do() -> None:
    """The same seed gives the same tours whatever the threads."""
    spaces, heat = batch_of(2, 100)
    tours = np.stack([[np.random.default_rng(ant).permutation(100) for ant in range(5)]] * 2)

    def found(seed: int, threads: int) -> np.ndarray:
        return TourSearch(spaces, heat, Guidance(2, 20), threads=threads)(tours, np.random.default_rng(seed))

    assert np.array_equal(found(0, 1), found(0, 3))
    assert not np.array_equal(found(0, 1), found(1, 1))


@pytest.mark.parametrize("size", [4, 5])
def test_few_nodes(size: int) -> None:
    """Tours of four and five nodes end at their optimum."""
    spaces, heat = batch_of(1, size)
    tours = np.random.default_rng(0).permutation(size)[None, None]
    found = TourSearch(spaces, heat, Guidance(3, 5))(tours, np.random.default_rng(0))
    assert sorted(found[0, 0]) == list(range(size))
    assert lengths(spaces, found)[0, 0] <= lengths(spaces, tours)[0, 0] + 1e-12


def test_large_heats_become_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit a guided search is refused, and a guided search without a heat too."""
    spaces, heat = batch_of(1, 12)
    monkeypatch.setattr("nco.search.guided.DENSE_LIMIT", 10)
    with pytest.raises(ValueError, match="heat of 12 nodes cannot become a matrix"):
        heat_distances(heat, 0)
    with pytest.raises(ValueError, match="guided search needs a heat"):
        TourSearch(spaces, None, Guidance())
