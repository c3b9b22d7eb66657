from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from nco.data import read_any, read_entries, read_set, read_set_tours
from nco.errors import InstanceFormatError
from nco.solution import routes_cost

TSP_LINE = "0.0 0.0 0.3 0.0 0.3 0.4 output 1 3 2 1"
CVRP_PARTS = "depot,0.0,0.0,customer,0.3,0.0,0.3,0.4,0.0,0.4,capacity,10,demand,{demand},cost,2.2,node_flag,2,3,1,1,1,0"


def write(path: Path, *lines: str, end: str = "\r\n") -> Path:
    """Write lines with the line ends of the peers' files, and none after the last."""
    path.write_text(end.join(lines), newline="")
    return path


def test_tsp_line_gives_coordinates_tour_and_its_length(tmp_path: Path) -> None:
    """The tour counts from 1, returns to its start, and its length is the reference."""
    entries = read_entries(write(tmp_path / "tsp.txt", TSP_LINE, TSP_LINE))
    assert [entry.instance.name for entry in entries] == ["tsp-0", "tsp-1"]
    instance, routes = entries[1]
    np.testing.assert_array_equal(instance.coords, [[0, 0], [0.3, 0], [0.3, 0.4]])
    assert [route.tolist() for route in routes] == [[0, 2, 1]]
    assert instance.reference.cost == pytest.approx(1.2)


@pytest.mark.parametrize("demand", ["0,4,5,6", "4,5,6"])
def test_cvrp_line_gives_routes_from_its_flags(tmp_path: Path, demand: str) -> None:
    """A flag of 1 starts a route at the depot, and the depot's demand may be left out."""
    ((instance, routes),) = read_entries(write(tmp_path / "cvrp.txt", CVRP_PARTS.format(demand=demand)))
    np.testing.assert_array_equal(instance.coords, [[0, 0], [0.3, 0], [0.3, 0.4], [0, 0.4]])
    assert (instance.demand.tolist(), instance.capacity) == ([0, 4, 5, 6], 10)
    assert [route.tolist() for route in routes] == [[2], [3, 1]]
    assert instance.reference.cost == pytest.approx((0.5 + 0.5) + (0.4 + 0.5 + 0.3))


def test_cvrp_line_without_a_solution_keeps_its_cost(tmp_path: Path) -> None:
    """Where a line has a cost but no routes, the cost is the reference."""
    line = CVRP_PARTS.format(demand="4,5,6").partition(",node_flag")[0]
    ((instance, routes),) = read_entries(write(tmp_path / "cvrp.txt", line))
    assert routes is None
    assert instance.reference.cost == 2.2


def lehd_line(instance, routes) -> str:
    """Write an instance and its solution as LEHD's sets have them."""
    if instance.problem == "tsp":
        (tour,) = routes
        return " ".join([*map(repr, instance.coords.ravel().tolist()), "output", *map(str, [*(tour + 1), tour[0] + 1])])
    numbers = {
        "depot": instance.coords[0],
        "customer": instance.coords[1:].ravel(),
        "capacity": [instance.capacity],
        "demand": instance.demand,
        "cost": [instance.reference.cost],
        "node_flag": [*np.concatenate(routes), *(int(i == 0) for route in routes for i in range(len(route)))],
    }
    return ",".join(f"{word},{','.join(map(str, np.asarray(values).tolist()))}" for word, values in numbers.items())


@pytest.mark.parametrize("name", ["tsp200_lehd", "cvrp200_lehd"])
def test_published_set_in_its_first_form(shared: Path, tmp_path: Path, name: str) -> None:
    """A published set in LEHD's form gives the same instances, routes and costs."""
    path = shared / "bench" / f"{name}.npz"
    pairs = list(zip(read_set(path), read_set_tours(path), strict=True))[:5]
    lines = [lehd_line(instance, routes) for instance, routes in pairs]
    for (old, old_routes), (new, routes) in zip(pairs, read_entries(write(tmp_path / "set.txt", *lines)), strict=True):
        np.testing.assert_array_equal(old.coords, new.coords)
        assert [route.tolist() for route in routes] == [route.tolist() for route in old_routes]
        assert new.reference.cost == pytest.approx(old.reference.cost, rel=1e-12)


LIBRARY_TSP = "['rect4', '14', '0', '0', '3.0', '0', '3', '4e0', '0', '4']"
LIBRARY_CVRP = (
    "['name', 'X-small', 'depot', 0, 0, 'customer', 3, 0, 3, 4.4, 0, 4.4, "
    "'demand', 0, 4, 5, 6, 'capacity', 10, 'cost', 22, 'end']"
)


def test_library_lines_are_rounded_instances_with_their_optimum(tmp_path: Path) -> None:
    """Lists of TSPLIB and CVRPLIB instances keep raw coordinates, integer lengths, names and best-known costs."""
    tsp, cvrp = read_any(write(tmp_path / "library.txt", LIBRARY_TSP, LIBRARY_CVRP))
    assert (tsp.name, tsp.metric, tsp.reference.cost) == ("rect4", "EUC_2D", 14)
    assert (cvrp.name, cvrp.metric, cvrp.capacity, cvrp.reference.cost) == ("X-small", "EUC_2D", 10, 22)
    assert routes_cost(tsp, [np.arange(4)]) == 14
    assert routes_cost(cvrp, [np.array([2, 3]), np.array([1])]) == (5 + 3 + 4) + 6


def test_library_optimum_belongs_to_its_rounding(tmp_path: Path) -> None:
    """Without rounding the integer optimum of a library line is no reference."""
    (instance,) = read_any(write(tmp_path / "library.txt", LIBRARY_TSP), rounding="none")
    assert (instance.metric, instance.reference) == ("EXACT", None)


def pickled(path: Path, data: object, protocol: int = 2) -> Path:
    """Pickle data into a file."""
    path.write_bytes(pickle.dumps(data, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("as_arrays", [False, True])
def test_pickled_cvrps(tmp_path: Path, protocol: int, as_arrays: bool) -> None:
    """Rows of (depot, customers, demands, capacity) are read, be they lists or arrays, in every pickle protocol."""
    rng = np.random.default_rng(1)
    depot, customers, demands = rng.random(2), rng.random((3, 2)), rng.integers(1, 10, 3)
    row = (depot, customers, demands, np.float64(50.0))
    if not as_arrays:
        row = (depot.tolist(), customers.tolist(), demands.tolist(), 50.0)
    first, second = read_any(pickled(tmp_path / "vrp.pkl", [row, row], protocol))
    np.testing.assert_array_equal(first.coords, np.vstack([depot, customers]))
    assert first.demand.tolist() == [0, *demands]
    assert (second.capacity, second.metric, second.reference) == (50, "EXACT", None)


def test_pickled_cvrps_are_the_seeded_benchmark(shared: Path, tmp_path: Path) -> None:
    """Drawn as Kool et al. draw them with seed 1234, pickled and read, the CVRPs equal the benchmark's."""
    random = np.random.RandomState(1234)
    depots, customers = random.uniform(size=(128, 2)), random.uniform(size=(128, 200, 2))
    demands = random.randint(1, 10, (128, 200))
    rows = [
        (depot, places, demand, 50.0)
        for depot, places, demand in zip(depots.tolist(), customers.tolist(), demands.tolist(), strict=True)
    ]
    found = read_any(pickled(tmp_path / "vrp200.pkl", rows))
    for old, new in zip(read_set(shared / "bench" / "cvrp200_kool1234.npz"), found, strict=True):
        np.testing.assert_array_equal(old.coords, new.coords)
        np.testing.assert_array_equal(old.demand, new.demand)
        assert old.capacity == new.capacity


def test_pickled_tsps(tmp_path: Path) -> None:
    """Rows of coordinates are TSPs, also those of four cities, which are as long as the row of a CVRP."""
    cities = [[0.0, 0.0], [0.5, 0.0], [0.5, 0.5], [0.0, 0.5]]
    four, three = read_any(pickled(tmp_path / "tsp.pkl", [cities, cities[:3]]))
    assert (four.problem, four.num_nodes, three.num_nodes) == ("tsp", 4, 3)


@pytest.mark.parametrize("row", [7, "text", [[1, 2, 3]], [[0.1], [0.2, 0.3]], ([0, 0], [[1, 1]], [1, 2], 50.0)])
def test_pickled_rows_of_another_shape_are_refused(tmp_path: Path, row: object) -> None:
    """Anything but the two known rows is an error that names the row."""
    with pytest.raises(InstanceFormatError, match="row 1"):
        read_any(pickled(tmp_path / "vrp.pkl", [[[0.0, 0.0], [1.0, 1.0]], row]))


def test_tensor_of_tsps(tmp_path: Path) -> None:
    """A float32 tensor [B, N, 2] gives B TSPs with the same values in float64."""
    coords = torch.rand(3, 5, 2, generator=torch.Generator().manual_seed(0))
    torch.save(coords, tmp_path / "tsp.pt")
    instances = read_any(tmp_path / "tsp.pt")
    for row, instance in zip(coords, instances, strict=True):
        np.testing.assert_array_equal(instance.coords, row.numpy().astype(np.float64))
        assert instance.problem == "tsp"


@pytest.mark.parametrize(
    ("saved", "reason"),
    [
        ({"weight": torch.zeros(2)}, "holds a dict"),
        (torch.zeros(4, 3), "holds a tensor"),
        (torch.zeros(1, 4, 2, dtype=torch.int64), "holds a tensor"),
        (torch.full((2, 4, 2), float("nan")), "row 0"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, saved: object, reason: str) -> None:
    """Weights and tensors of another shape, type or content are no instances."""
    torch.save(saved, tmp_path / "other.pt")
    with pytest.raises(InstanceFormatError, match=reason):
        read_any(tmp_path / "other.pt")
