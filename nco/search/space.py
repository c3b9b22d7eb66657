"""Distances inside numba kernels: any metric of :mod:`nco.geometry`, without a matrix wherever it has a formula."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nco import geometry
from nco.instance import Instance

# Numbers of the metrics in kernels: those of the plane have a formula, the others come as a matrix.
_EXACT, _EUC_2D, _CEIL_2D, _ATT, MATRIX = range(5)
_CODES = {"EXACT": _EXACT, "EUC_2D": _EUC_2D, "CEIL_2D": _CEIL_2D, "ATT": _ATT}


class Space(NamedTuple):
    """Where the nodes lie and how far apart they are; build one with :func:`plane`, :func:`dense` or :func:`space_of`.

    Attributes
    ----------
    coords : float64 [N, 2]
        Plane coordinates; zeros where distances come from the matrix.
    matrix : float64 [N, N] or [0, 0]
        The distances of a metric that the plane has no formula for.
    metric : int
        Number of the metric.
    """

    coords: NDArray[np.float64]
    matrix: NDArray[np.float64]
    metric: int

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.coords)


def plane(coords: NDArray[np.float64], metric: str = "EXACT") -> Space:
    """Return the space of a metric of the plane: one of :data:`nco.geometry.PLANE_METRICS`.

    Parameters
    ----------
    coords : float64 [N, 2]
        Finite.

    Raises
    ------
    ValueError
        If the coordinates have another shape or are not finite, or the metric is none of the plane.
    """
    # Writable, so that kernels are compiled for one type of array only.
    coords = np.require(coords, np.float64, ["C", "W"])
    if coords.ndim != 2 or coords.shape[1] != 2 or len(coords) == 0:
        raise ValueError(f"coordinates must have the shape [N, 2], not {list(coords.shape)}")
    if not np.isfinite(coords).all():
        raise ValueError("a coordinate is not finite")
    if metric not in _CODES:
        raise ValueError(f"{metric!r} is no metric of the plane; those are {', '.join(geometry.PLANE_METRICS)}")
    return Space(coords, np.empty((0, 0)), _CODES[metric])


def dense(matrix: NDArray[np.float64]) -> Space:
    """Return a space whose distances are a symmetric matrix, float64 [N, N].

    Raises
    ------
    ValueError
        If the matrix is not square, not finite or not symmetric.
    """
    matrix = np.require(matrix, np.float64, ["C", "W"])
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError(f"a distance matrix must have the shape [N, N], not {list(matrix.shape)}")
    if not np.isfinite(matrix).all() or not np.array_equal(matrix, matrix.T):
        raise ValueError("a distance matrix must be finite and symmetric")
    return Space(np.zeros((len(matrix), 2)), matrix, MATRIX)


def space_of(instance: Instance) -> Space:
    """Return an instance's space, in its own metric.

    GEO and EXPLICIT use a matrix. A GEO instance above :data:`nco.geometry.DENSE_LIMIT` nodes may have none: its
    degrees are then taken for plane coordinates, and whoever searches must compare costs on the instance itself.
    """
    if instance.metric in _CODES:
        return plane(instance.network_coords, instance.metric)
    if instance.metric == "GEO" and instance.num_nodes > geometry.DENSE_LIMIT:
        return plane(instance.network_coords)
    return dense(instance.distance_matrix())


def neighbour_lists(space: Space, k: int) -> NDArray[np.int32]:
    """Return each node's k nearest others, nearest first, int32 [N, min(k, N - 1)].

    The order is that of the matrix where there is one, else the Euclidean one.
    """
    if k < 1:
        raise ValueError(f"neighbour lists need at least one neighbour, not {k}")
    if space.metric != MATRIX:
        return geometry.k_nearest(space.coords, k).astype(np.int32)
    off_diagonal = space.matrix.copy()
    np.fill_diagonal(off_diagonal, np.inf)
    k = min(k, space.num_nodes - 1)
    found = np.sort(np.argpartition(off_diagonal, k - 1, axis=1)[:, :k], axis=1)
    by_length = np.argsort(np.take_along_axis(off_diagonal, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, by_length, axis=1).astype(np.int32)


@njit(cache=True, nogil=True)
def distance(space, tail, head):  # type: ignore[no-untyped-def]
    """Return the length of one edge."""
    if space.metric == MATRIX:
        return space.matrix[tail, head]
    dx = space.coords[tail, 0] - space.coords[head, 0]
    dy = space.coords[tail, 1] - space.coords[head, 1]
    squared = dx * dx + dy * dy
    if space.metric == _EXACT:
        return np.sqrt(squared)
    if space.metric == _EUC_2D:
        return np.floor(np.sqrt(squared) + 0.5)
    if space.metric == _CEIL_2D:
        return np.ceil(np.sqrt(squared))
    exact = np.sqrt(squared / 10.0)
    nearest = np.floor(exact + 0.5)
    return nearest + 1.0 if nearest < exact else nearest
