from __future__ import annotations

import numpy as np
import pytest

from nco.data.distributions import Clustered, Explosion, Implosion, Rotation, Uniform
from nco.data.generators import CVRPGenerator, TSPGenerator, benchmark_instances, make_generator
from nco.errors import UsageError

DISTRIBUTIONS = [Uniform(), Clustered(), Explosion(), Implosion(), Rotation()]


def seeded(seed: int = 1) -> np.random.Generator:
    """Return a fresh generator."""
    return np.random.default_rng(seed)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda one: type(one).__name__)
def test_points_fill_the_asked_shape_within_the_square(distribution) -> None:
    """Every distribution draws float64 points of the asked shape, all in the unit square and distinct."""
    points = distribution.coords(seeded(), 50, 40)
    assert points.shape == (50, 40, 2)
    assert points.dtype == np.float64
    assert points.min() >= 0.0
    assert points.max() <= 1.0
    assert len(np.unique(points.reshape(-1, 2), axis=0)) == 2_000


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda one: type(one).__name__)
def test_same_seed_same_points(distribution) -> None:
    """The seed determines the points, and another seed gives others."""
    first, again, other = (distribution.coords(seeded(seed), 3, 20) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_clusters_have_their_spread() -> None:
    """A narrow mixture of three has three tight groups: nodes are within 5 spreads of the nearest of three."""
    points = Clustered(clusters=3, spread=0.005).coords(seeded(), 1, 300)[0]
    centres = [points[0]]
    for _ in range(2):
        distance = np.min([np.linalg.norm(points - centre, axis=1) for centre in centres], axis=0)
        centres.append(points[distance.argmax()])
    nearest = np.min([np.linalg.norm(points - centre, axis=1) for centre in centres], axis=0)
    assert nearest.max() < 10 * 0.005
    assert len(points) == 300


class Fixed:
    """A generator of random numbers that takes its disc from the test and the rest from a seed."""

    def __init__(self, centre: tuple[float, float], radius: float):
        self.rng = seeded()
        self.centre, self.radius = np.array(centre), radius

    def random(self, shape):
        """Return the fixed centre where one is asked for."""
        return np.broadcast_to(self.centre, shape).copy() if shape[1:] == (1, 2) else self.rng.random(shape)

    def uniform(self, low, high, shape):
        """Return the fixed radius."""
        return np.full(shape, self.radius)

    def __getattr__(self, name):
        return getattr(self.rng, name)


def test_explosion_empties_the_disc_but_for_points_placed_anew() -> None:
    """Around a central disc of radius 0.2 nothing leaves the square at a small shift, so the disc is empty."""
    points = Explosion(mean_shift=0.01).coords(Fixed((0.5, 0.5), 0.2), 4, 500)
    distance = np.linalg.norm(points - 0.5, axis=-1)
    assert distance.min() >= 0.2 - 1e-12
    # A uniform ring of that width would hold about 7 % of the points; the exploded disc adds its 12.6 %.
    assert ((distance < 0.23) & (distance >= 0.2)).mean() > 0.12


def test_explosion_keeps_directions_and_outer_points() -> None:
    """Points beyond the radius stay, the others move along their ray from the centre."""
    before = seeded().random((4, 500, 2))
    after = Explosion(mean_shift=0.01).coords(Fixed((0.5, 0.5), 0.2), 4, 500)
    outer = np.linalg.norm(before - 0.5, axis=-1) >= 0.2
    np.testing.assert_array_equal(after[outer], before[outer])
    cross = np.cross(np.pad(before - 0.5, ((0, 0), (0, 0), (0, 1))), np.pad(after - 0.5, ((0, 0), (0, 0), (0, 1))))
    np.testing.assert_allclose(cross, 0.0, atol=1e-12)


def test_implosion_draws_the_disc_together() -> None:
    """Within the disc each distance to the centre shrinks to between 1 - r and 1 of it; outside nothing moves."""
    before = seeded().random((4, 500, 2))
    after = Implosion().coords(Fixed((0.3, 0.6), 0.4), 4, 500)
    old, new = (np.linalg.norm(points - [0.3, 0.6], axis=-1) for points in (before, after))
    inner = old < 0.4
    np.testing.assert_array_equal(after[~inner], before[~inner])
    ratio = new[inner] / old[inner]
    assert ratio.min() >= 0.6 - 1e-9
    assert ratio.max() <= 1.0
    # |z| is above 0.4 for 69 % of the points: these shrink by the whole radius.
    assert np.isclose(ratio, 0.6).mean() == pytest.approx(0.69, abs=0.05)


def test_rotation_moves_its_fraction_rigidly() -> None:
    """Rotated points that stayed in the square keep their mutual distances; the others are untouched."""
    before = seeded().random((1, 200, 2))[0]
    after = Rotation(fraction=0.5).coords(seeded(), 1, 200)[0]
    chosen = (before != after).any(axis=1)
    assert 0.35 < chosen.mean() < 0.65
    gaps = [np.linalg.norm(points[chosen][:, None] - points[chosen], axis=-1) for points in (before, after)]
    # Those placed anew break rigidity, so the same distances join only the points that stayed: a clique among all.
    assert np.isclose(*gaps).sum(axis=1).max() > 0.2 * chosen.sum()


@pytest.mark.parametrize(
    "build",
    [
        lambda: Clustered(clusters=0),
        lambda: Clustered(clusters=2.5),  # type: ignore[arg-type]
        lambda: Clustered(spread=0.0),
        lambda: Explosion(min_radius=0.5, max_radius=0.1),
        lambda: Explosion(mean_shift=0.0),
        lambda: Implosion(max_radius=2.0),
        lambda: Rotation(fraction=1.5),
        lambda: TSPGenerator(1),
        lambda: CVRPGenerator(0),
        lambda: CVRPGenerator(100, capacity=8),
        lambda: CVRPGenerator(100, capacity=()),
        lambda: CVRPGenerator(100, route_length=0.5),
        lambda: CVRPGenerator(100, capacity=50, route_length=5),
        lambda: CVRPGenerator(100, max_demand=0),
    ],
)
def test_options_out_of_range_are_refused(build) -> None:
    """Options that make no sense are refused when the generator is built."""
    with pytest.raises(UsageError):
        build()


def test_tsp_generator_draws_named_instances() -> None:
    """Instances carry their coordinates unrounded, an exact metric, and names numbered from ``first``."""
    instances = TSPGenerator(20, Explosion())(seeded(), 3, first=7)
    assert [instance.name for instance in instances] == [f"tsp20-explosion-{number}" for number in (7, 8, 9)]
    np.testing.assert_array_equal(
        np.stack([instance.coords for instance in instances]),  # type: ignore[misc]
        Explosion().coords(seeded(), 3, 20),
    )
    assert {instance.metric for instance in instances} == {"EXACT"}


@pytest.mark.parametrize(("customers", "capacity"), [(10, 20), (20, 30), (50, 40), (100, 50), (200, 80), (500, 100)])
def test_cvrp_has_the_customary_capacity_and_demands(customers: int, capacity: int) -> None:
    """Demands are 1 to 9, the depot's is 0, and the capacity is the literature's for the size."""
    instances = CVRPGenerator(customers)(seeded(), 20)
    demand = np.stack([instance.demand for instance in instances])  # type: ignore[misc]
    assert demand.shape == (20, customers + 1)
    assert not demand[:, 0].any()
    assert set(np.unique(demand[:, 1:])) == set(range(1, 10))
    assert {instance.capacity for instance in instances} == {capacity}


def test_size_without_a_customary_capacity_needs_one() -> None:
    """No capacity is guessed for an unusual size."""
    with pytest.raises(UsageError, match="no customary capacity for 33"):
        CVRPGenerator(33)
    assert CVRPGenerator(33, capacity=40)(seeded(), 1)[0].capacity == 40


def test_route_length_sets_the_capacity() -> None:
    """The capacity is the length times the mean demand, rounded up: one less would not carry that many."""
    for instance in CVRPGenerator(40, route_length=7.5)(seeded(), 30):
        assert instance.demand is not None
        assert instance.capacity is not None
        total = int(instance.demand.sum())
        assert (instance.capacity - 1) * 40 < 7.5 * total <= instance.capacity * 40


def test_short_routes_still_carry_the_largest_demand() -> None:
    """Where the mean demand is below the largest one, the capacity is at least that."""
    for instance in CVRPGenerator(40, route_length=1.0)(seeded(), 10):
        assert instance.demand is not None
        assert instance.capacity == instance.demand.max()


def test_several_capacities_are_mixed() -> None:
    """Of several capacities each instance has one, about equally often."""
    drawn = [instance.capacity for instance in CVRPGenerator(30, capacity=(30, 80, 120))(seeded(), 600)]
    values, counts = np.unique(drawn, return_counts=True)
    assert list(values) == [30, 80, 120]
    assert counts.min() > 150


def test_registry_builds_what_its_name_says() -> None:
    """Options reach the distribution and the demand part alike."""
    generator = make_generator("clustered", "cvrp", 30, clusters=2, capacity=60)
    assert generator == CVRPGenerator(30, Clustered(clusters=2), capacity=60)
    assert make_generator("uniform", "tsp", 30) == TSPGenerator(30)


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        (("triangle", "tsp", 10), {}, "no generator named 'triangle'"),
        (("uniform", "tspp", 10), {}, "no problem named 'tspp'"),
        (("uniform", "tsp", 10), {"capacity": 5}, "no option 'capacity'"),
        (("uniform", "cvrp", 10), {"clusters": 5}, "no option 'clusters'"),
        (("x", "tsp", 100), {}, "CVRPs only"),
        (("clustered", "tsp", 100), {"spread": "wide"}, "wrong type"),
        (("x", "cvrp", 100), {"capacity": 5}, "no option 'capacity'"),
    ],
)
def test_registry_refuses_unknown_names_and_options(arguments, options, reason) -> None:
    """Misspelt names and options are never ignored."""
    with pytest.raises(UsageError, match=reason):
        make_generator(*arguments, **options)


@pytest.mark.parametrize(
    ("n", "first", "tsp_sum", "depot", "cvrp_sum", "demand"),
    [
        (1_000, (0.91220267, 0.16602880), 1012.730386, (0.68305138, 0.21935928), 983.680525, 4_986),
        (10_000, (0.02918149, 0.53882088), 10053.665377, (0.10646949, 0.78615049), 10003.260456, 50_017),
        (100_000, (0.57811379, 0.82856809), 99945.067297, (0.14861657, 0.43610371), 99970.848469, 500_016),
    ],
)
def test_benchmark_instances_have_the_published_check_values(n, first, tsp_sum, depot, cvrp_sum, demand) -> None:
    """The first large instance of each size is the published one."""
    tsp = benchmark_instances("tsp", n, 1)[0]
    cvrp = benchmark_instances("cvrp", n, 1, capacity=300)[0]
    assert tsp.coords is not None
    assert cvrp.coords is not None
    assert cvrp.demand is not None
    np.testing.assert_allclose(tsp.coords[0], first, atol=5e-9)
    np.testing.assert_allclose(cvrp.coords[0], depot, atol=5e-9)
    assert tsp.coords.sum() == pytest.approx(tsp_sum, abs=1e-6)
    assert cvrp.coords.sum() == pytest.approx(cvrp_sum, abs=1e-6)
    assert cvrp.demand.sum() == demand
    assert cvrp.capacity == 300


def test_benchmark_capacity_is_always_stated() -> None:
    """A CVRP of the benchmark has no default capacity, and a TSP has none at all."""
    for problem, capacity in (("cvrp", None), ("tsp", 50)):
        with pytest.raises(UsageError, match="capacity"):
            benchmark_instances(problem, 10, 1, capacity)
