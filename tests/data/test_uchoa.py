from __future__ import annotations

import numpy as np
import pytest

from nco.data.uchoa import GRID, XGenerator
from nco.errors import UsageError
from nco.instance import Instance


def draw(count: int = 10, num_customers: int = 100, seed: int = 1, **options) -> list[Instance]:
    """Draw X instances with fixed options."""
    return XGenerator(num_customers, **options)(np.random.default_rng(seed), count)


def customer_demand(instance: Instance) -> np.ndarray:
    """Return the demands of the customers."""
    assert instance.demand is not None
    return instance.demand[1:]


def test_nodes_are_distinct_grid_points() -> None:
    """Coordinates are whole numbers of 0..1000, no two nodes coincide, and distances are rounded."""
    for instance in draw(21):
        assert instance.coords is not None
        assert instance.metric == "EUC_2D"
        assert len(np.unique(instance.coords, axis=0)) == 101
        assert np.array_equal(instance.coords, np.round(instance.coords))
        assert instance.coords.min() >= 0
        assert instance.coords.max() <= GRID


def test_depot_lies_where_its_kind_says() -> None:
    """C is the centre, E the corner, and R is neither for long."""
    depots = {
        kind: {tuple(instance.coords[0]) for instance in draw(5, depot=kind)}  # type: ignore[index]
        for kind in ("C", "E", "R")
    }
    assert depots["C"] == {(500.0, 500.0)}
    assert depots["E"] == {(0.0, 0.0)}
    assert len(depots["R"]) == 5


def neighbour_distance(instance: Instance) -> float:
    """Return the mean distance of a customer to the nearest other one."""
    assert instance.coords is not None
    customers = instance.coords[1:]
    gaps = np.linalg.norm(customers[:, None] - customers, axis=-1) + 1e9 * np.eye(len(customers))
    return float(gaps.min(axis=1).mean())


def test_clustered_customers_crowd_around_seeds() -> None:
    """Clustered customers lie closer together than half-clustered ones, and these closer than random ones."""
    random, mixed, clustered = (
        np.mean([neighbour_distance(instance) for instance in draw(5, 200, customers=kind)])
        for kind in ("R", "RC", "C")
    )
    assert clustered < 0.75 * mixed
    assert mixed < random


def test_attraction_decays_exponentially_with_forty_units() -> None:
    """Around an isolated seed the distance is Gamma(2, 40) distributed: the density exp(-d / 40) in the plane."""
    from nco.data.uchoa import _attracted_points

    taken = np.zeros((GRID + 1, GRID + 1), dtype=bool)
    points = _attracted_points(np.random.default_rng(1), 4_000, np.array([[500, 500]]), taken)
    distance = np.linalg.norm(points - 500, axis=1)
    # Taken points cannot be taken twice, which pushes the mean of 80 outward a little.
    assert 78 < distance.mean() < 95
    assert taken.sum() == 4_000


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("U", 1, 1), ("1-10", 1, 10), ("5-10", 5, 10), ("1-100", 1, 100), ("50-100", 50, 100)]
)
def test_demands_span_their_range(kind: str, low: int, high: int) -> None:
    """Uniform demand kinds reach both ends of their range and no further, around its middle."""
    demand = np.concatenate([customer_demand(instance) for instance in draw(20, demand=kind)])
    assert (demand.min(), demand.max()) == (low, high)
    assert demand.mean() == pytest.approx((low + high) / 2, rel=0.05)


def test_quadrant_demands_follow_the_place() -> None:
    """Upper left and lower right have demands up to 50, the other quadrants from 51."""
    for instance in draw(5, demand="Q", customers="R"):
        assert instance.coords is not None
        odd = np.prod(np.where(instance.coords[1:] >= 500, 1, -1), axis=1) == 1
        demand = customer_demand(instance)
        assert set(demand[odd]) <= set(range(51, 101))
        assert set(demand[~odd]) <= set(range(1, 51))
        assert odd.any()
        assert not odd.all()


def test_many_demands_are_small_and_few_large() -> None:
    """Between 70 % and 95 % of the demands are 1-10, the others 50-100, in no order."""
    shares = []
    for instance in draw(20, demand="SL"):
        demand = customer_demand(instance)
        assert set(demand) <= {*range(1, 11), *range(50, 101)}
        shares.append((demand <= 10).mean())
        assert (demand[:50] > 10).any() or (demand <= 10).mean() > 0.9
    assert min(shares) >= 0.70
    assert max(shares) <= 0.95
    assert np.ptp(shares) > 0.1


def test_capacity_is_route_length_times_mean_demand() -> None:
    """Q = ceil(r * total demand / n): one unit less would not do."""
    for instance in draw(20, demand="1-100", route_length=9.3):
        assert instance.capacity is not None
        total = int(customer_demand(instance).sum())
        assert (instance.capacity - 1) * 100 < 9.3 * total <= instance.capacity * 100


def test_route_lengths_are_triangular() -> None:
    """Drawn route lengths lie in 3..25 with the mean (3 + 6 + 25) / 3 of the triangular distribution."""
    instances = draw(600, 16, demand="50-100", customers="R", depot="C")
    lengths = [instance.capacity / customer_demand(instance).mean() for instance in instances]  # type: ignore[operator]
    assert min(lengths) >= 3.0
    assert max(lengths) < 25.0 + 0.1
    assert np.mean(lengths) == pytest.approx(34 / 3, rel=0.05)


def test_few_large_demands_fit_into_the_vehicle() -> None:
    """With short routes and few large demands the capacity is raised to the largest demand."""
    raised = [
        instance.capacity == customer_demand(instance).max() for instance in draw(20, demand="SL", route_length=3)
    ]
    assert any(raised)


def test_kinds_are_drawn_when_left_open() -> None:
    """Instances of one generator differ in depot, customers and demand, as their names state."""
    kinds = [instance.name.split("-x-")[1].rsplit("-", 1)[0] for instance in draw(30)]
    assert len(set(kinds)) > 15


def test_same_seed_same_instances() -> None:
    """The seed determines the instances."""
    first, again = draw(4), draw(4)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.coords, two.coords)  # type: ignore[arg-type]
        np.testing.assert_array_equal(one.demand, two.demand)  # type: ignore[arg-type]
        assert one.capacity == two.capacity


@pytest.mark.parametrize(
    "options",
    [{"depot": "X"}, {"customers": "E"}, {"demand": "1-9"}, {"route_length": 0.5}, {"num_customers": 10}],
)
def test_options_out_of_range_are_refused(options) -> None:
    """Kinds that do not exist, and fewer customers than seeds, are refused when the generator is built."""
    with pytest.raises(UsageError):
        XGenerator(**{"num_customers": 100, **options})
