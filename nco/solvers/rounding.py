"""Whole-number distances for solvers that know no others. Costs are never computed from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nco.instance import Instance


def whole_distances(instance: Instance, largest: int, scale: float | None = None) -> tuple[NDArray[np.int64], float]:
    """Return int64 distances [N, N] and the scale by which they exceed the instance's own.

    Parameters
    ----------
    instance : Instance
        Of at most :data:`nco.geometry.DENSE_LIMIT` nodes.
    largest : int
        The largest distance that is wanted. Distances that are whole and no larger stay as they are; others are scaled
        so that the largest becomes this, and rounded.
    scale : float, optional
        Scale by this in any case.
    """
    distances = instance.distance_matrix()
    if scale is None:
        scale = fitting_scale(distances, largest)
    whole = np.floor(distances * scale + 0.5).astype(np.int64)
    np.fill_diagonal(whole, 0)
    return whole, scale


def fitting_scale(distances: NDArray[np.float64], largest: float) -> float:
    """Return 1 for whole distances up to ``largest``, else what makes the largest of them (in magnitude) that one."""
    longest = float(np.abs(distances).max())
    if longest == 0.0 or (longest <= largest and np.array_equal(distances, np.floor(distances))):
        return 1.0
    return largest / longest
