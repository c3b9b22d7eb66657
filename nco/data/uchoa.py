"""The generator of the X benchmark set for the CVRP (Uchoa et al. 2017, EJOR 257, 845-858, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from nco.errors import UsageError
from nco.instance import Instance

# Coordinates are whole numbers 0..GRID; half of it separates the quadrants.
GRID = 1000
# Length at which the attraction of a cluster's seed has fallen to 1 / e.
DECAY = 40.0
MIN_SEEDS, MAX_SEEDS = 3, 8
ROUTE_LENGTH = (3.0, 6.0, 25.0)  # lowest, most frequent and highest of the triangular distribution

DEPOTS = ("C", "E", "R")
CUSTOMERS = ("R", "C", "RC")
DEMANDS = {
    "U": (1, 1),
    "1-10": (1, 10),
    "5-10": (5, 10),
    "1-100": (1, 100),
    "50-100": (50, 100),
    "Q": None,
    "SL": None,
}


@dataclass(frozen=True)
class XGenerator:
    """CVRPs drawn as the X set was: whole coordinates on a 1000 x 1000 grid, metric EUC_2D, no two nodes in one place.

    An attribute that is None is drawn anew for each instance, uniformly among its kinds.

    Parameters
    ----------
    num_customers : int
        At least 8, the largest number of cluster seeds; twice as many if customers are "RC".
    depot : {"C", "E", "R"}, optional
        In the centre (500, 500), in the corner (0, 0), or random.
    customers : {"R", "C", "RC"}, optional
        Random; clustered: S ~ U{3..8} random customers are seeds, and the others fall on a grid point p with a
        probability proportional to the sum over seeds s of exp(-|p - s| / 40); or half random, half clustered.
    demand : {"U", "1-10", "5-10", "1-100", "50-100", "Q", "SL"}, optional
        All 1; uniform in a range (small or large values with large or small variation); "Q": 1-50 in the even quadrants
        (upper left and lower right) and 51-100 in the odd ones; "SL": many small and few large values, 1-10 for a share
        of 70 % to 95 % of the customers, drawn for each instance, and 50-100 for the others.
    route_length : float, optional
        Mean customers a route, r >= 1. By default drawn from the triangular distribution (3, 6, 25). The capacity is
        ceil(r * total demand / customers), or the largest demand where that is more (possible with "SL").

    Raises
    ------
    UsageError
        If an option has no such value, or there are too few or too many customers.
    """

    num_customers: int
    depot: str | None = None
    customers: str | None = None
    demand: str | None = None
    route_length: float | None = None

    problem = "cvrp"

    def __post_init__(self) -> None:
        for option, kinds in (("depot", DEPOTS), ("customers", CUSTOMERS), ("demand", tuple(DEMANDS))):
            value = getattr(self, option)
            if value is not None and value not in kinds:
                raise UsageError(f"{option} must be one of {', '.join(kinds)}, not {value!r}")
        fewest = 2 * MAX_SEEDS if self.customers in (None, "RC") else MAX_SEEDS
        # Rejection of taken places slows down as the grid fills up; the X set itself ends at 1,000 customers.
        if not fewest <= self.num_customers <= 100_000:
            raise UsageError(f"an X instance has {fewest} to 100000 customers, not {self.num_customers}")
        if self.route_length is not None and not self.route_length >= 1.0:
            raise UsageError(f"route_length must be at least 1, not {self.route_length}")

    def __call__(self, rng: np.random.Generator, count: int, first: int = 0) -> list[Instance]:
        """Draw instances.

        Parameters
        ----------
        rng : numpy.random.Generator
        count : int
        first : int
            The number of the first instance; it only enters the names.
        """
        return [self._instance(rng, first + index) for index in range(count)]

    def coords(self, rng: np.random.Generator, depot: str, customers: str) -> NDArray[np.int64]:
        """Draw distinct grid points for one instance, int64 [num_customers + 1, 2], the depot first."""
        place = {"C": np.full(2, GRID // 2), "E": np.zeros(2, np.int64), "R": rng.integers(0, GRID + 1, 2)}[depot]
        num_clustered = {"R": 0, "C": self.num_customers, "RC": self.num_customers - self.num_customers // 2}[customers]
        taken = np.zeros((GRID + 1, GRID + 1), dtype=bool)
        taken[tuple(place)] = True
        parts = [place[None], _random_points(rng, self.num_customers - num_clustered, taken)]
        if num_clustered:
            seeds = _random_points(rng, int(rng.integers(MIN_SEEDS, MAX_SEEDS + 1)), taken)
            parts += [seeds, _attracted_points(rng, num_clustered - len(seeds), seeds, taken)]
        return np.concatenate(parts)

    def demands(self, rng: np.random.Generator, coords: NDArray[np.int64], demand: str) -> NDArray[np.int64]:
        """Draw the demands of one instance, int64 [num_customers + 1], the depot's 0 first."""
        customers = coords[1:]
        count = len(customers)
        limits = DEMANDS[demand]
        if limits is not None:
            drawn = rng.integers(limits[0], limits[1] + 1, count)
        elif demand == "Q":
            right, upper = (customers >= GRID // 2).T
            drawn = rng.integers(1, 51, count) + 50 * (right == upper)
        else:
            small = rng.permutation(count) < round(rng.uniform(0.70, 0.95) * count)
            drawn = np.where(small, rng.integers(1, 11, count), rng.integers(50, 101, count))
        return np.concatenate([[0], drawn])

    def _instance(self, rng: np.random.Generator, number: int) -> Instance:
        depot = self.depot or str(rng.choice(DEPOTS))
        customers = self.customers or str(rng.choice(CUSTOMERS))
        kind = self.demand or str(rng.choice(list(DEMANDS)))
        coords = self.coords(rng, depot, customers)
        demand = self.demands(rng, coords, kind)
        length = self.route_length if self.route_length is not None else rng.triangular(*ROUTE_LENGTH)
        capacity = max(int(np.ceil(length * demand.sum() / self.num_customers)), int(demand.max()))
        name = f"cvrp{self.num_customers}-x-{depot}-{customers}-{kind}-{number}"
        return Instance(name, "cvrp", coords.astype(np.float64), "EUC_2D", demand=demand, capacity=capacity)


def _random_points(rng: np.random.Generator, count: int, taken: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Draw distinct free grid points uniformly, [count, 2], and mark them as taken."""
    free = np.flatnonzero(~taken)
    chosen = rng.choice(free, count, replace=False)
    taken.flat[chosen] = True
    return np.stack(np.unravel_index(chosen, taken.shape), axis=1)


@cache
def _attraction() -> NDArray[np.float64]:
    """Return exp(-|p| / DECAY) for the grid offsets -GRID..GRID, [2 GRID + 1, 2 GRID + 1]."""
    offset = np.arange(-GRID, GRID + 1)
    return np.exp(-np.hypot(offset[:, None], offset) / DECAY)


def _attracted_points(
    rng: np.random.Generator, count: int, seeds: NDArray[np.int64], taken: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Draw distinct free grid points by the attraction of the seeds, [count, 2], and mark them as taken."""
    weights = np.zeros(taken.shape)
    for x, y in seeds:
        weights += _attraction()[GRID - x : 2 * GRID + 1 - x, GRID - y : 2 * GRID + 1 - y]
    weights[taken] = 0.0
    chosen = rng.choice(weights.size, count, replace=False, p=weights.ravel() / weights.sum())
    taken.flat[chosen] = True
    return np.stack(np.unravel_index(chosen, taken.shape), axis=1)
