"""Distances inside kernels against those of the instances, and neighbour lists."""

from __future__ import annotations

import numpy as np
import pytest

from nco.geometry import PLANE_METRICS
from nco.instance import Instance
from nco.search.space import dense, distance, neighbour_lists, plane, space_of


def points(num_nodes: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Return uniform points in a square."""
    return scale * np.random.default_rng(seed).random((num_nodes, 2))


@pytest.mark.parametrize("metric", [*PLANE_METRICS, "GEO", "EXPLICIT"])
def test_distances_are_those_of_the_instance(metric: str) -> None:
    """Every metric gives the instance's own lengths, rounding included."""
    coords = points(12, 60.0)
    if metric == "EXPLICIT":
        weights = np.rint(np.abs(coords[:, None, 0] - coords[None, :, 0]))
        instance = Instance("matrix", "tsp", weights=weights, metric=metric)
    else:
        instance = Instance(metric, "tsp", coords, metric)
    space = space_of(instance)
    found = [[distance(space, i, j) for j in range(12)] for i in range(12)]
    assert np.array_equal(found, instance.distance_matrix())


def test_a_large_geo_instance_has_no_matrix() -> None:
    """Above the dense limit the degrees are taken for plane coordinates."""
    coords = points(5001, 60.0)
    space = space_of(Instance("world", "tsp", coords, "GEO"))
    assert space.matrix.size == 0
    assert distance(space, 0, 1) == pytest.approx(np.hypot(*(coords[0] - coords[1])))


@pytest.mark.parametrize("k", [1, 4, 50])
def test_neighbour_lists_hold_the_nearest_others(k: int) -> None:
    """In the plane and from a matrix alike, in ascending distance, never the node itself, at most N - 1 of them."""
    coords = points(20)
    matrix = np.linalg.norm(coords[:, None] - coords[None], axis=-1)
    others = np.where(np.eye(20, dtype=bool), np.inf, matrix)
    expected = np.argsort(others, axis=1)[:, : min(k, 19)]
    assert np.array_equal(neighbour_lists(plane(coords), k), expected)
    assert np.array_equal(neighbour_lists(dense(matrix), k), expected)


def test_bad_spaces_are_refused() -> None:
    """Shapes, numbers that are not finite, asymmetry and unknown metrics are named."""
    with pytest.raises(ValueError, match=r"shape \[N, 2\]"):
        plane(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="not finite"):
        plane(np.array([[0.0, np.nan]]))
    with pytest.raises(ValueError, match="no metric of the plane"):
        plane(np.zeros((3, 2)), "GEO")
    with pytest.raises(ValueError, match="finite and symmetric"):
        dense(np.array([[0.0, 1.0], [2.0, 0.0]]))
    with pytest.raises(ValueError, match="at least one neighbour"):
        neighbour_lists(plane(points(3)), 0)
