from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.data import read_set, read_set_tours, write_set
from nco.data.labels import read_labels
from nco.errors import InfeasibleSolution, InstanceFormatError, UsageError
from nco.instance import Instance
from nco.solution import Routes, Solution, routes_cost

# Mean costs and numbers of references that the README of the benchmark sets states.
PUBLISHED = {
    "tsp200_lehd": (128, 10.7036),
    "tsp500_lehd": (128, 16.5215),
    "cvrp200_lehd": (128, 20.1726),
    "cvrp500_lehd": (128, 37.2292),
    "tsp200_gfacs": (128, 10.7195),
    "tsp500_gfacs": (32, 16.5311),
    "cvrp200_kool1234": (28, 27.2306),
}


def cvrp(name: str, seed: int, capacity: int = 12) -> Instance:
    """Draw a CVRP of five customers."""
    rng = np.random.default_rng(seed)
    demand = np.array([0, *rng.integers(0, 6, 5)])
    return Instance(name, "cvrp", rng.random((6, 2)), demand=demand, capacity=capacity)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_set_has_its_stated_references(shared: Path, name: str) -> None:
    """Every row is read; costs of NaN give no reference, and the others are the lengths of the judged tours."""
    path = shared / "bench" / f"{name}.npz"
    instances, tours = read_set(path), read_set_tours(path)
    count, mean = PUBLISHED[name]
    assert len(instances) == len(tours) == 128
    referenced = [(instance, routes) for instance, routes in zip(instances, tours, strict=True) if instance.reference]
    assert len(referenced) == count
    assert np.mean([instance.reference.cost for instance, _ in referenced]) == pytest.approx(mean, abs=6e-5)
    for instance, routes in referenced:
        assert Solution.judged(instance, routes).cost == pytest.approx(instance.reference.cost, rel=1e-12)
    assert all(routes is None for instance, routes in zip(instances, tours, strict=True) if not instance.reference)


def test_kind_of_the_references_is_the_caller_s_where_the_file_has_none(shared: Path) -> None:
    """A file that does not say what its references are leaves it to the caller."""
    path = shared / "bench" / "tsp200_lehd.npz"
    assert read_set(path)[0].reference.kind == "best-known"
    assert read_set(path, kind="optimal")[0].reference.kind == "optimal"


def test_set_keeps_references_tours_names_and_capacities(tmp_path: Path) -> None:
    """What is written comes back: per-row capacities, names, kinds, and rows without a reference or a tour."""
    instances = [cvrp("a", 1, 12), cvrp("b", 2, 20).with_reference(3.5, "hgs"), cvrp("c", 3, 30)]
    routes: list[Routes | None] = [[np.array([k]) for k in range(1, 6)], None, None]
    write_set(instances, tmp_path / "set.npz", routes)
    again = read_set(tmp_path / "set.npz")
    for old, new in zip(instances, again, strict=True):
        np.testing.assert_array_equal(old.coords, new.coords, strict=True)
        np.testing.assert_array_equal(old.demand, new.demand, strict=True)
        assert (old.name, old.capacity, new.metric) == (new.name, new.capacity, "EXACT")
    assert again[0].reference.cost == routes_cost(instances[0], routes[0])
    assert (again[1].reference.cost, again[1].reference.kind) == (3.5, "hgs")
    assert again[2].reference is None
    tours = read_set_tours(tmp_path / "set.npz")
    assert [route.tolist() for route in tours[0]] == [[1], [2], [3], [4], [5]]
    assert tours[1:] == [None, None]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(data=st.data(), rows=st.integers(1, 4), size=st.integers(2, 7))
def test_tsp_set_round_trip_is_exact(tmp_path_factory: pytest.TempPathFactory, data, rows: int, size: int) -> None:
    """Coordinates of any size and any tours come back to the last bit."""
    number = st.floats(-1e6, 1e6)
    coords = [np.array(data.draw(st.lists(number, min_size=2 * size, max_size=2 * size))) for _ in range(rows)]
    instances = [Instance(f"row {row}", "tsp", places.reshape(size, 2)) for row, places in enumerate(coords)]
    tours = [[np.array(data.draw(st.permutations(range(size))))] for _ in range(rows)]
    path = tmp_path_factory.getbasetemp() / "set.npz"
    write_set(instances, path, tours)
    for old, new in zip(instances, read_set(path), strict=True):
        np.testing.assert_array_equal(old.coords, new.coords, strict=True)
    for old, new in zip(tours, read_set_tours(path), strict=True):
        np.testing.assert_array_equal(old[0], new[0])


def test_written_set_serves_as_labels(tmp_path: Path) -> None:
    """A set in which every instance has a tour is a labelled set for training."""
    instances = [cvrp("a", 1), cvrp("b", 2, 30)]
    routes = [[np.array([k]) for k in range(1, 6)], [np.array([5, 4, 3, 2, 1])]]
    write_set(instances, tmp_path / "set.npz", routes)
    labels = read_labels(tmp_path / "set.npz")
    assert labels.tours.tolist() == [[0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0], [0, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0]]
    assert labels.capacity.tolist() == [12, 30]


@pytest.mark.parametrize(
    ("instances", "reason"),
    [
        ([], "at least one"),
        ([cvrp("a", 1), Instance("b", "tsp", np.eye(2))], "one problem, size and metric"),
        ([Instance("a", "tsp", np.eye(2), "EUC_2D")], "EUC_2D"),
    ],
)
def test_unlike_instances_are_no_set(tmp_path: Path, instances: list[Instance], reason: str) -> None:
    """A set holds one problem, one size and unrounded distances, and nothing is written otherwise."""
    with pytest.raises(UsageError, match=reason):
        write_set(instances, tmp_path / "set.npz")
    assert not list(tmp_path.iterdir())


def test_infeasible_routes_are_not_stored(tmp_path: Path) -> None:
    """Routes that miss a customer never reach a file."""
    with pytest.raises(InfeasibleSolution):
        write_set([cvrp("a", 1)], tmp_path / "set.npz", [[np.array([1, 2])]])
    assert not list(tmp_path.iterdir())


def test_failed_write_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that dies half-way leaves the former set whole and no debris."""
    path = tmp_path / "set.npz"
    write_set([cvrp("former", 1)], path)

    def die(file, **arrays) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", die)
    with pytest.raises(KeyboardInterrupt):
        write_set([cvrp("new", 2)], path)
    assert [file.name for file in tmp_path.iterdir()] == ["set.npz"]
    assert read_set(path)[0].name == "former"


def test_missing_set_is_a_format_error(tmp_path: Path) -> None:
    """A set that is not there gives the same kind of error as a broken one."""
    with pytest.raises(InstanceFormatError, match="No such file"):
        read_set(tmp_path / "none.npz")
