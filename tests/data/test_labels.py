from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nco.data.labels import LabelledSet, read_labels
from nco.errors import InstanceFormatError
from nco.instance import Instance
from nco.solution import Solution, routes_cost, split_giant_tour


def judged_costs(labels: LabelledSet, rows: list[int]) -> list[float]:
    """Judge the tours of some rows and cost them anew."""
    costs = []
    for row in rows:
        demand = None if labels.demand is None else labels.demand[row]
        capacity = None if labels.capacity is None else int(labels.capacity[row])
        instance = Instance(str(row), labels.problem, labels.coords[row], demand=demand, capacity=capacity)
        costs.append(Solution.judged(instance, split_giant_tour(labels.problem, labels.tours[row])).cost)
    return costs


@pytest.mark.parametrize("name", ["cvrp100_c50_hgs.npz", "cvrp100_mixed_hgs.npz"])
def test_redrawn_cvrp_instances_match_the_stored_costs(shared: Path, name: str) -> None:
    """Drawn again from the seeds, the instances give every stored cost, across chunk borders and capacities."""
    labels = read_labels(shared / "labels" / name)
    rows = [0, 99, 100, 499, 500, 1301, len(labels) - 1]
    assert labels.cost is not None
    assert judged_costs(labels, rows) == pytest.approx(labels.cost[rows], rel=1e-6)


def test_redrawn_tsp_instances_have_the_published_mean_length(shared: Path) -> None:
    """The first 999 tours of tsp100_lkh and one of the next chunk are permutations of mean length 7.76."""
    labels = read_labels(shared / "labels" / "tsp100_lkh.npz")
    assert labels.coords.dtype == np.float32
    assert labels.tours.dtype == np.uint8
    costs = judged_costs(labels, [*range(0, 1_000, 5), 1_000, len(labels) - 1])
    assert np.mean(costs) == pytest.approx(7.76, abs=0.05)
    assert max(costs) < 9.5  # a tour over the wrong instance is some 50 long


def write_tsp_set(path: Path, rows: int = 30) -> np.ndarray:
    """Write a small set of TSPs with arbitrary tours in the keys of nco's sets."""
    rng = np.random.default_rng(3)
    tours = rng.permuted(np.tile(np.arange(7), (rows, 1)), axis=1)
    np.savez(path, coords=rng.random((rows, 7, 2)), tour=tours, cost=np.ones(rows))
    return tours


def test_set_with_tours_is_read_as_labels(tmp_path: Path) -> None:
    """A set file with a tour for each instance is a labelled set, its tours kept compact."""
    tours = write_tsp_set(tmp_path / "set.npz")
    labels = read_labels(tmp_path / "set.npz")
    assert labels.problem == "tsp"
    assert labels.tours.dtype == np.uint8
    np.testing.assert_array_equal(labels.tours, tours)


def test_split_keeps_the_last_tenth_for_validation(tmp_path: Path) -> None:
    """Validation rows come from the end, and training never sees them."""
    tours = write_tsp_set(tmp_path / "set.npz")
    labels = read_labels(tmp_path / "set.npz")
    train, validation = labels.split()
    assert (len(train), len(validation)) == (27, 3)
    np.testing.assert_array_equal(validation.tours, tours[27:])
    assert [len(part) for part in labels.split(validation=10)] == [20, 10]


def test_split_takes_at_most_a_thousand_rows() -> None:
    """A large set gives 1,000 rows for validation, not a tenth."""
    labels = LabelledSet(np.zeros((20_000, 2, 2), np.float32), np.zeros((20_000, 2), np.uint8))
    assert len(labels.split()[1]) == 1_000


def test_split_that_leaves_nothing_is_refused() -> None:
    """All rows or none for validation is an error."""
    labels = LabelledSet(np.zeros((3, 2, 2), np.float32), np.zeros((3, 2), np.uint8))
    for validation in (0, 3):
        with pytest.raises(ValueError, match="validation rows"):
            labels.split(validation)


def test_capacity_of_a_set_is_given_per_row(tmp_path: Path) -> None:
    """One capacity for a whole set becomes one for each row, and the tours keep to it."""
    demand = np.array([[0, 2, 2, 2]] * 3)
    tour = np.array([[0, 1, 2, 0, 3, 0]] * 3)
    np.savez(tmp_path / "set.npz", coords=np.eye(4)[None, :, :2].repeat(3, 0), demand=demand, capacity=4, tour=tour)
    labels = read_labels(tmp_path / "set.npz")
    assert labels.capacity is not None
    np.testing.assert_array_equal(labels.capacity, [4, 4, 4])
    instance = Instance("row", "cvrp", labels.coords[0], demand=demand[0], capacity=4)
    assert judged_costs(labels, [0]) == [routes_cost(instance, [[1, 2], [3]])]


def test_set_without_a_tour_names_the_instance(tmp_path: Path) -> None:
    """An instance without a reference tour cannot be trained on."""
    tour = np.array([[0, 1, 2], [-1, -1, -1]])
    np.savez(tmp_path / "set.npz", coords=np.zeros((2, 3, 2)), tour=tour)
    with pytest.raises(InstanceFormatError, match=r"set\.npz: instance 1 has no tour"):
        read_labels(tmp_path / "set.npz")


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"coords": np.zeros((1, 2, 2))}, "no tours"),
        ({"tours": np.zeros((1, 2))}, "no coords"),
        ({"coords": np.zeros((1, 2, 2)), "tour": np.array([[0, 1]]), "demand": np.array([[0, 1]])}, "no capacity"),
    ],
)
def test_incomplete_files_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], reason: str) -> None:
    """A file that lacks a key is refused with its name and the reason."""
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(InstanceFormatError, match=rf"wrong\.npz: .*{reason}"):
        read_labels(tmp_path / "wrong.npz")


def test_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    """Garbage is an InstanceFormatError, not a traceback from the archive reader."""
    (tmp_path / "set.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(InstanceFormatError, match=r"set\.npz: cannot be read"):
        read_labels(tmp_path / "set.npz")
