"""Metrics of the benchmark libraries, neighbour lists and plane transformations.

Distances follow TSPLIB95 (Reinelt 1991) to the integer: EUC_2D rounds half up, CEIL_2D rounds up, ATT is the
pseudo-Euclidean metric and GEO the great-circle distance with truncated degrees. ``EXACT`` is the unrounded Euclidean
distance of random instances.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

PLANE_METRICS = ("EXACT", "EUC_2D", "CEIL_2D", "ATT")
METRICS = (*PLANE_METRICS, "GEO", "EXPLICIT")

# The largest instance for which a dense N x N matrix may be built.
DENSE_LIMIT = 5_000

_GEO_RADIUS = 6378.388
_GEO_PI = 3.141592


def _geo_radians(coords: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn TSPLIB's DDD.MM coordinates into radians; degrees are truncated toward zero."""
    degrees = np.trunc(coords)
    minutes = coords - degrees
    return _GEO_PI * (degrees + 5.0 * minutes / 3.0) / 180.0


def edge_lengths(
    metric: str,
    coords: NDArray[np.float64] | None,
    tail: ArrayLike,
    head: ArrayLike,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the lengths of the edges tail -> head.

    Parameters
    ----------
    metric : str
        One of :data:`METRICS`.
    coords : float64 [N, 2] or None
        Node coordinates; not needed for ``EXPLICIT``.
    tail, head : int [E]
        End nodes; they broadcast against one another.
    weights : float64 [N, N], optional
        The matrix of an ``EXPLICIT`` instance.

    Returns
    -------
    float64 [E]
    """
    tail, head = np.asarray(tail), np.asarray(head)
    if metric == "EXPLICIT":
        if weights is None:
            raise ValueError("an EXPLICIT metric needs its weights")
        return weights[tail, head]
    if coords is None:
        raise ValueError(f"the metric {metric} needs coordinates")
    if metric == "GEO":
        latitude, longitude = _geo_radians(coords).T
        q1 = np.cos(longitude[tail] - longitude[head])
        q2 = np.cos(latitude[tail] - latitude[head])
        q3 = np.cos(latitude[tail] + latitude[head])
        cosine = np.clip(0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3), -1.0, 1.0)
        length = np.floor(_GEO_RADIUS * np.arccos(cosine) + 1.0)
        return np.where(tail == head, 0.0, length)
    delta = coords[tail] - coords[head]
    squared = np.einsum("...d,...d->...", delta, delta)
    if metric == "EXACT":
        return np.sqrt(squared)
    if metric == "EUC_2D":
        return np.floor(np.sqrt(squared) + 0.5)
    if metric == "CEIL_2D":
        return np.ceil(np.sqrt(squared))
    if metric == "ATT":
        exact = np.sqrt(squared / 10.0)
        nearest = np.floor(exact + 0.5)
        return np.where(nearest < exact, nearest + 1.0, nearest)
    raise ValueError(f"unknown metric {metric!r}; known are {', '.join(METRICS)}")


def distance_matrix(
    metric: str, coords: NDArray[np.float64] | None, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return all distances, float64 [N, N].

    Raises
    ------
    ValueError
        Above :data:`DENSE_LIMIT` nodes, where nothing may be quadratic in memory.
    """
    if metric == "EXPLICIT" and weights is not None:
        return weights
    if coords is None:
        raise ValueError(f"the metric {metric} needs coordinates")
    num_nodes = len(coords)
    if num_nodes > DENSE_LIMIT:
        raise ValueError(f"a dense matrix of {num_nodes} nodes was asked for; the limit is {DENSE_LIMIT}")
    nodes = np.arange(num_nodes)
    return edge_lengths(metric, coords, nodes[:, None], nodes[None, :])


def k_nearest(coords: NDArray[np.float64], k: int, queries: NDArray[np.float64] | None = None) -> NDArray[np.int64]:
    """Return the k nearest nodes in ascending Euclidean distance.

    Parameters
    ----------
    coords : float64 [N, 2]
    k : int
        Reduced to the number of nodes there are.
    queries : float64 [M, 2], optional
        Points to ask for. By default the nodes themselves, each of which is then left out of its own list.

    Returns
    -------
    int64 [M or N, k]
    """
    from scipy.spatial import cKDTree

    num_nodes = len(coords)
    if queries is not None:
        k = min(k, num_nodes)
        _, found = cKDTree(coords).query(queries, k=k)
        return np.asarray(found, dtype=np.int64).reshape(len(queries), k)
    k = min(k, num_nodes - 1)
    _, found = cKDTree(coords).query(coords, k=k + 1)
    found = np.asarray(found, dtype=np.int64).reshape(num_nodes, k + 1)
    is_self = found == np.arange(num_nodes)[:, None]
    # Among many coinciding points the node itself may be missing: then its last neighbour is dropped instead.
    is_self[~is_self.any(axis=1), -1] = True
    return found[~is_self].reshape(num_nodes, k)


def isotropic_scale(coords: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the offset [2] and the one scale that map coordinates into the unit square, aspect ratio kept.

    ``(coords - offset) / scale`` lies in the unit square. When all points coincide the scale is 1.
    """
    offset = coords.min(axis=0)
    scale = float((coords.max(axis=0) - offset).max())
    return offset, scale if scale > 0 else 1.0


def square_symmetries(coords: Tensor) -> Tensor:
    """Return the eight images of points in the unit square, [8, ..., N, 2]; the first is the identity.

    These are the rotations and reflections that POMO (Kwon et al. 2020) uses as augmentation.
    """
    x, y = coords.unbind(-1)
    images = [(x, y), (1 - x, y), (x, 1 - y), (1 - x, 1 - y), (y, x), (1 - y, x), (y, 1 - x), (1 - y, 1 - x)]
    return torch.stack([torch.stack(image, dim=-1) for image in images])


def embed_distances(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return plane coordinates [N, 2] that approximate a symmetric distance matrix, by classical scaling.

    Classical multidimensional scaling (Torgerson 1952): double-centre the squared distances and keep the two leading
    eigenvectors. Networks see these coordinates; costs always come from the matrix itself.
    """
    from scipy.linalg import eigh

    num_nodes = len(weights)
    if num_nodes > DENSE_LIMIT:
        raise ValueError(f"classical scaling of {num_nodes} nodes was asked for; the limit is {DENSE_LIMIT}")
    squared = ((weights + weights.T) / 2.0) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    rank = min(2, num_nodes)
    values, vectors = eigh(-0.5 * centred, subset_by_index=(num_nodes - rank, num_nodes - 1))
    coords = np.zeros((num_nodes, 2))
    coords[:, :rank] = (vectors * np.sqrt(np.clip(values, 0.0, None)))[:, ::-1]
    return coords
