"""Distributions of points in the unit square.

Each is a frozen dataclass whose ``coords(rng, count, num_nodes)`` draws float64 [count, num_nodes, 2] at once; networks
round to float32 later, when instances become an :class:`nco.instance.InstanceBatch`. Explosion, implosion and rotation
are mutation operators of Bossek et al. (2019, "Evolving diverse TSP instances by means of novel and creative mutation
operators", FOGA), applied once to uniform points. Points that a mutation throws out of the square are placed anew,
uniformly, which is one of the two treatments of that paper and leaves no points crowded on the border.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nco.errors import UsageError

Points = NDArray[np.float64]


class Distribution(Protocol):
    """Where the nodes of a random instance lie."""

    def coords(self, rng: np.random.Generator, count: int, num_nodes: int) -> Points:
        """Draw points in the unit square, float64 [count, num_nodes, 2]."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Independent uniform points."""

    def coords(self, rng: np.random.Generator, count: int, num_nodes: int) -> Points:
        """Draw points, float64 [count, num_nodes, 2]."""
        return rng.random((count, num_nodes, 2))


@dataclass(frozen=True)
class Clustered:
    """A mixture of isotropic Gaussians with equal weights and uniform centres.

    A point outside the square is rejected and drawn again around the same centre.

    Parameters
    ----------
    clusters : int
        Number of Gaussians, at least 1.
    spread : float
        Their standard deviation, above 0 and at most 0.5 (beyond which rejection would draw for long).
    """

    clusters: int = 5
    spread: float = 0.07

    def __post_init__(self) -> None:
        if not (isinstance(self.clusters, int) and self.clusters >= 1):
            raise UsageError(f"clusters must be a whole number of at least 1, not {self.clusters}")
        if not 0.0 < self.spread <= 0.5:
            raise UsageError(f"spread must be above 0 and at most 0.5, not {self.spread}")

    def coords(self, rng: np.random.Generator, count: int, num_nodes: int) -> Points:
        """Draw points, float64 [count, num_nodes, 2]."""
        centres = rng.random((count, self.clusters, 2))
        cluster = rng.integers(self.clusters, size=(count, num_nodes))
        means = centres[np.arange(count)[:, None], cluster]
        points = rng.normal(means, self.spread)
        outside = _outside(points)
        while outside.any():
            points[outside] = rng.normal(means[outside], self.spread)
            outside = _outside(points)
        return points


@dataclass(frozen=True)
class _DiscMutation:
    """What explosion and implosion share: a uniform centre c and a radius r drawn from a range, for each instance.

    Parameters
    ----------
    min_radius, max_radius : float
        r is uniform between them; 0 < min_radius <= max_radius <= 1.
    """

    min_radius: float = 0.1
    max_radius: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.min_radius <= self.max_radius <= 1.0:
            raise UsageError(
                f"radii must satisfy 0 < min_radius <= max_radius <= 1, not {self.min_radius} and {self.max_radius}"
            )

    def coords(self, rng: np.random.Generator, count: int, num_nodes: int) -> Points:
        """Draw points, float64 [count, num_nodes, 2]."""
        points = rng.random((count, num_nodes, 2))
        centre = rng.random((count, 1, 2))
        radius = rng.uniform(self.min_radius, self.max_radius, (count, 1))
        offset = points - centre
        distance = np.linalg.norm(offset, axis=-1)
        # A point on the centre itself has no direction to move in.
        inside = (distance < radius) & (distance > 0.0)
        factor = np.where(inside, self._factor(rng, distance, radius), 1.0)
        return _placed_anew(rng, np.where(inside[..., None], centre + factor[..., None] * offset, points))

    def _factor(self, rng: np.random.Generator, distance: Points, radius: Points) -> Points:
        """Return by what factor the offset of each point from the centre grows, [count, num_nodes]."""
        raise NotImplementedError


@dataclass(frozen=True)
class Explosion(_DiscMutation):
    """Uniform points, thrown out of a disc: p' = c + (r + s) (p - c) / |p - c| if |p - c| < r, s ~ Exp(mean_shift).

    Parameters
    ----------
    min_radius, max_radius : float
        The centre c is uniform in the square, the radius r uniform between these two.
    mean_shift : float
        Mean of the exponential distance s beyond the rim, above 0.
    """

    mean_shift: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mean_shift > 0.0:
            raise UsageError(f"mean_shift must be above 0, not {self.mean_shift}")

    def _factor(self, rng: np.random.Generator, distance: Points, radius: Points) -> Points:
        shift = rng.exponential(self.mean_shift, distance.shape)
        return (radius + shift) / np.maximum(distance, np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Implosion(_DiscMutation):
    """Uniform points, dragged to a centre: p' = c + (1 - min(|z|, r)) (p - c) if |p - c| < r, z ~ N(0, 1).

    Parameters
    ----------
    min_radius, max_radius : float
        The centre c is uniform in the square, the radius r uniform between these two.
    """

    def _factor(self, rng: np.random.Generator, distance: Points, radius: Points) -> Points:
        return 1.0 - np.minimum(np.abs(rng.standard_normal(distance.shape)), radius)


@dataclass(frozen=True)
class Rotation:
    """Uniform points, a random subset of them rotated: p' = c + R(a) (p - c), a ~ U[0, 2 pi), c ~ U[0, 1]^2.

    One angle and one centre for all points of the subset. The authors' generator turns about the origin and then shifts
    by U[0, 1]^2, which for many angles throws the whole subset out of the square; a centre within it keeps more.

    Parameters
    ----------
    fraction : float
        Probability that a point belongs to the subset, in [0, 1].
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.fraction <= 1.0:
            raise UsageError(f"fraction must lie in [0, 1], not {self.fraction}")

    def coords(self, rng: np.random.Generator, count: int, num_nodes: int) -> Points:
        """Draw points, float64 [count, num_nodes, 2]."""
        points = rng.random((count, num_nodes, 2))
        chosen = rng.random((count, num_nodes)) < self.fraction
        angle = rng.uniform(0.0, 2.0 * np.pi, count)
        centre = rng.random((count, 1, 2))
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        turned = centre + np.einsum("ijb,bnj->bni", rotation, points - centre)
        return _placed_anew(rng, np.where(chosen[..., None], turned, points))


def _outside(points: Points) -> NDArray[np.bool_]:
    """Tell which points lie outside the unit square, [...]."""
    return np.asarray(((points < 0.0) | (points > 1.0)).any(axis=-1))


def _placed_anew(rng: np.random.Generator, points: Points) -> Points:
    """Replace points outside the unit square by uniform ones, in place."""
    outside = _outside(points)
    points[outside] = rng.random((int(outside.sum()), 2))
    return points


DISTRIBUTIONS: dict[str, type[Distribution]] = {
    "uniform": Uniform,
    "clustered": Clustered,
    "explosion": Explosion,
    "implosion": Implosion,
    "rotation": Rotation,
}
