"""Generators of random instances: ``generator(rng, count)`` returns instances, the same for the same seed.

Coordinates are drawn and kept in float64, as every :class:`nco.instance.Instance` holds them; networks see them in
float32. ``rng`` is a ``numpy.random.default_rng``, passed down by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nco.data.distributions import DISTRIBUTIONS, Distribution, Uniform
from nco.data.uchoa import XGenerator
from nco.errors import UsageError
from nco.instance import PROBLEMS, Instance

# Capacity by number of customers for demands U{1..9}: up to 100 Nazari et al. (2018) and Kool et al. (2019), beyond as
# LEHD (Luo et al. 2023) has them.
CAPACITIES = {10: 20, 20: 30, 50: 40, 100: 50, 200: 80, 500: 100, 1000: 250}
MAX_DEMAND = 9


class Generator(Protocol):
    """What draws instances of one problem, size and kind."""

    problem: str

    def __call__(self, rng: np.random.Generator, count: int, first: int = 0) -> list[Instance]:
        """Draw ``count`` instances; ``first`` is the number that the first one has in its name."""
        ...


@dataclass(frozen=True)
class TSPGenerator:
    """Random TSPs in the unit square, unrounded distances.

    Parameters
    ----------
    num_nodes : int
        At least 2.
    distribution : Distribution
    """

    num_nodes: int
    distribution: Distribution = field(default_factory=Uniform)

    problem = "tsp"

    def __post_init__(self) -> None:
        if self.num_nodes < 2:
            raise UsageError(f"a TSP needs at least 2 nodes, not {self.num_nodes}")

    def coords(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw the nodes of ``count`` instances at once, float64 [count, num_nodes, 2]."""
        return self.distribution.coords(rng, count, self.num_nodes)

    def __call__(self, rng: np.random.Generator, count: int, first: int = 0) -> list[Instance]:
        """Draw ``count`` instances; ``first`` is the number that the first one has in its name."""
        name = f"tsp{self.num_nodes}-{type(self.distribution).__name__.lower()}"
        return [Instance(f"{name}-{first + row}", "tsp", coords) for row, coords in enumerate(self.coords(rng, count))]


@dataclass(frozen=True)
class CVRPGenerator:
    """Random CVRPs in the unit square, unrounded distances; the depot is drawn like a customer.

    Parameters
    ----------
    num_customers : int
        At least 1.
    distribution : Distribution
    capacity : int or sequence of int, optional
        Each instance has one of these, drawn uniformly. Where neither this nor ``route_length`` is given, it is the
        literature's for the size (:data:`CAPACITIES`), if there is one.
    route_length : float or sequence of float, optional
        Mean customers a route: the capacity is ceil(route_length * the instance's mean demand), or its largest demand
        where that is more. Of several lengths, each instance has one, drawn uniformly.
    max_demand : int
        Demands are U{1..max_demand}.

    Raises
    ------
    UsageError
        If the capacity follows neither from the arguments nor from the size, or from two of them; if a capacity is
        below the largest possible demand, or a route length below 1.
    """

    num_customers: int
    distribution: Distribution = field(default_factory=Uniform)
    capacity: int | Sequence[int] | None = None
    route_length: float | Sequence[float] | None = None
    max_demand: int = MAX_DEMAND

    problem = "cvrp"

    def __post_init__(self) -> None:
        if self.num_customers < 1:
            raise UsageError(f"a CVRP needs at least 1 customer, not {self.num_customers}")
        if self.max_demand < 1:
            raise UsageError(f"max_demand must be at least 1, not {self.max_demand}")
        if self.capacity is not None and self.route_length is not None:
            raise UsageError("give capacity or route_length, not both: each determines the other")
        if self.capacity is None and self.route_length is None:
            if self.num_customers not in CAPACITIES:
                raise UsageError(
                    f"there is no customary capacity for {self.num_customers} customers "
                    f"(only for {', '.join(map(str, CAPACITIES))}): give capacity or route_length"
                )
            object.__setattr__(self, "capacity", CAPACITIES[self.num_customers])
        for option, lowest in (("capacity", self.max_demand), ("route_length", 1)):
            choices = getattr(self, option)
            if choices is None:
                continue
            choices = tuple(choices) if isinstance(choices, Sequence) else (choices,)
            object.__setattr__(self, option, choices)
            if not choices or min(choices) < lowest:
                raise UsageError(f"{option} must be at least {lowest}, not {', '.join(map(str, choices)) or 'empty'}")

    def coords(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw the nodes of ``count`` instances at once, float64 [count, num_customers + 1, 2], depots first."""
        return self.distribution.coords(rng, count, self.num_customers + 1)

    def capacities(self, rng: np.random.Generator, demand: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the capacities, int64 [count], of instances with the demand [count, num_customers]."""
        if self.capacity is not None:
            return rng.choice(np.asarray(self.capacity, dtype=np.int64), len(demand))
        lengths = rng.choice(np.asarray(self.route_length, dtype=np.float64), len(demand))
        wanted = np.ceil(lengths * demand.sum(axis=1) / self.num_customers).astype(np.int64)
        return np.maximum(wanted, demand.max(axis=1))

    def __call__(self, rng: np.random.Generator, count: int, first: int = 0) -> list[Instance]:
        """Draw ``count`` instances; ``first`` is the number that the first one has in its name."""
        coords = self.coords(rng, count)
        demand = rng.integers(1, self.max_demand + 1, (count, self.num_customers))
        capacity = self.capacities(rng, demand)
        demand = np.pad(demand, ((0, 0), (1, 0)))
        name = f"cvrp{self.num_customers}-{type(self.distribution).__name__.lower()}"
        return [
            Instance(f"{name}-{first + row}", "cvrp", coords[row], demand=demand[row], capacity=int(capacity[row]))
            for row in range(count)
        ]


GENERATORS = (*DISTRIBUTIONS, "x")


def make_generator(name: str, problem: str, size: int, **options: Any) -> Generator:
    """Build a generator from its name.

    Parameters
    ----------
    name : str
        One of :data:`GENERATORS`: a distribution of points, or "x" for :class:`nco.data.uchoa.XGenerator`.
    problem : {"tsp", "cvrp"}
    size : int
        Nodes of a TSP, customers of a CVRP.
    **options
        Those of the distribution, and for a CVRP those of :class:`CVRPGenerator`.

    Raises
    ------
    UsageError
        If there is no such generator, it does not draw this problem, or an option is unknown or out of range.
    """
    if name not in GENERATORS:
        raise UsageError(f"no generator named {name!r}; there are {', '.join(GENERATORS)}")
    if problem not in PROBLEMS:
        raise UsageError(f"no problem named {problem!r}; there are {', '.join(PROBLEMS)}")
    try:
        return _make(name, problem, size, options)
    except TypeError as error:  # a number was expected, and the validation has compared something else
        raise UsageError(f"generator {name!r}: an option has a wrong type: {error}") from error


def _make(name: str, problem: str, size: int, options: dict[str, Any]) -> Generator:
    if name == "x":
        if problem != "cvrp":
            raise UsageError("the generator 'x' draws CVRPs only")
        _check_options(name, options, _names(XGenerator, "num_customers"))
        return XGenerator(size, **options)
    shape = _names(DISTRIBUTIONS[name])
    demand = _names(CVRPGenerator, "num_customers", "distribution") if problem == "cvrp" else []
    _check_options(name, options, [*shape, *demand])
    distribution = DISTRIBUTIONS[name](**{option: value for option, value in options.items() if option in shape})
    if problem == "tsp":
        return TSPGenerator(size, distribution)
    return CVRPGenerator(size, distribution, **{option: options[option] for option in demand if option in options})


def _names(kind: type, *without: str) -> list[str]:
    """Return the names of a dataclass's fields."""
    return [one.name for one in fields(kind) if one.name not in without]


def _check_options(name: str, options: dict[str, Any], known: list[str]) -> None:
    for option in options:
        if option not in known:
            raise UsageError(f"generator {name!r} has no option {option!r}; it has {', '.join(known) or 'none'}")


def benchmark_instances(problem: str, n: int, count: int, capacity: int | None = None) -> list[Instance]:
    """Return the first large uniform instances of the benchmark suites, reproducible bit for bit from their seeds.

    TSP number i: ``default_rng([1001, n, i]).random((n, 2))``. CVRP number i: ``rng = default_rng([1002, n, i])``,
    then the coordinates ``rng.random((n + 1, 2))``, depot first, then the demands ``rng.integers(1, 10, n)``.

    Parameters
    ----------
    problem : {"tsp", "cvrp"}
    n : int
        Nodes of a TSP, customers of a CVRP.
    count : int
    capacity : int, optional
        Needed for a CVRP. It is not drawn, and the literature has two conventions: 200 / 300 / 300 (short routes) and
        250 / 1,000 / 2,000 (long routes) for 1,000 / 10,000 / 100,000 customers.

    Raises
    ------
    UsageError
        If the problem is unknown, a CVRP has no capacity, or a TSP has one.
    """
    if problem not in PROBLEMS:
        raise UsageError(f"no problem named {problem!r}; there are {', '.join(PROBLEMS)}")
    if (capacity is None) != (problem == "tsp"):
        raise UsageError("a CVRP needs a capacity here, and a TSP has none")
    if problem == "tsp":
        return [
            Instance(f"tsp{n}-benchmark-{index}", "tsp", np.random.default_rng([1001, n, index]).random((n, 2)))
            for index in range(count)
        ]
    instances = []
    for index in range(count):
        rng = np.random.default_rng([1002, n, index])
        coords = rng.random((n + 1, 2))
        demand = np.concatenate([[0], rng.integers(1, 10, n)])
        instances.append(Instance(f"cvrp{n}-benchmark-{index}", "cvrp", coords, demand=demand, capacity=capacity))
    return instances
