from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.data import read_instance, read_routes, with_rounding, write_instance
from nco.errors import InstanceFormatError, UsageError
from nco.instance import Instance
from nco.solution import Solution

TSP_TEXT = """NAME : three
COMMENT : nodes of a 3-4-5 triangle
TYPE : TSP
DIMENSION : 3
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
1 0 0
2 3.0 0
3 3 4e0
EOF
"""
CVRP_TEXT = """NAME : three
TYPE : CVRP
DIMENSION : 3
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 10
NODE_COORD_SECTION
30 0 0
10 3 0
20 3 4
DEMAND_SECTION
20 0
10 4
30 7
DEPOT_SECTION
20
-1
EOF
"""


@pytest.fixture
def read(tmp_path: Path):
    """Return a function that reads an instance from text."""

    def read_text(text: str | bytes, **options: str) -> Instance:
        path = tmp_path / "file.tsp"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_instance(path, **options)

    return read_text


def assert_same(left: Instance, right: Instance) -> None:
    """Fail unless two instances agree in every field, to the last bit."""
    for field in ("name", "problem", "metric", "capacity"):
        assert getattr(left, field) == getattr(right, field)
    for field in ("coords", "weights", "demand", "node_ids"):
        np.testing.assert_array_equal(getattr(left, field), getattr(right, field), strict=True)


# Published instances


def test_published_tsp_optima_are_exact(shared: Path) -> None:
    """All files of TSPLIB parse, and every published optimal tour costs exactly the published optimum."""
    folder = shared / "bench" / "tsplib"
    published = json.loads((folder / "best_known.json").read_text())
    assert {path.stem for path in folder.glob("*.tsp")} == set(published)
    tours = 0
    for name, entry in published.items():
        instance = read_instance(folder / f"{name}.tsp")
        assert (instance.problem, instance.num_nodes) == ("tsp", entry["n"])
        assert instance.metric == entry["edge_weight_type"]
        if entry["tour_file"]:
            tours += 1
            routes = read_routes(folder / entry["tour_file"], instance)
            assert Solution.judged(instance, routes).cost == entry["best_known"], name
    assert tours == 24


def test_published_cvrp_solutions_are_exact(shared: Path) -> None:
    """All files of CVRPLIB parse, and every published solution is feasible and costs exactly its published cost."""
    folder = shared / "bench" / "cvrplib"
    published = json.loads((folder / "best_known.json").read_text())
    assert {path.stem for path in folder.glob("*.vrp")} == set(published)
    for name, entry in published.items():
        instance = read_instance(folder / f"{name}.vrp")
        assert (instance.num_customers, instance.capacity) == (entry["customers"], entry["capacity"])
        solution = Solution.judged(instance, read_routes(folder / entry["solution_file"], instance))
        assert (solution.cost, len(solution.routes)) == (entry["best_known"], entry["routes"]), name


# The many ways to write the same file


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace(" : ", ":"),
        lambda text: text.replace(" : ", ": "),
        lambda text: text.replace(" : ", " :\t"),
        lambda text: text.replace(" : ", " = "),
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace("EOF\n", ""),
        lambda text: text.replace("\nEOF\n", ""),
        lambda text: text.replace("EOF\n", "EOF\nanything at all\n"),
        lambda text: "\n\n" + text.replace("2 3.0 0\n", "\n   2   3.0   0   \n\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("TYPE : TSP", "TYPE : TSP (somebody)"),
        lambda text: text.replace("NODE", "EDGE_WEIGHT_FORMAT : FUNCTION\nNODE"),
        lambda text: text.replace("NODE", "NODE_COORD_TYPE : TWOD_COORDS\nDISPLAY_DATA_TYPE : COORD_DISPLAY\nNODE"),
        lambda text: text.replace("EOF", "FIXED_EDGES_SECTION\n-1\nEOF"),
        lambda text: text.replace("DIMENSION : 3\n", "").replace("EOF", "DIMENSION : 3\nEOF"),
        lambda text: text.replace("1 0 0\n", "").replace("EOF", "1 0 0\nEOF"),
    ],
)
def test_same_file_in_another_hand(read, rewrite) -> None:
    """Line ends, separators, order, blank lines, remarks and a missing EOF make no difference."""
    assert_same(read(rewrite(TSP_TEXT)), read(TSP_TEXT))


def test_comment_in_an_older_encoding_is_no_obstacle(read) -> None:
    """Bytes that are not UTF-8 may stand in a comment."""
    assert_same(read(TSP_TEXT.replace("nodes", "Städte").encode("latin-1")), read(TSP_TEXT))


def test_file_without_a_name_is_called_after_its_file(read) -> None:
    """The name of the file stands in for a missing NAME."""
    assert read(TSP_TEXT.replace("NAME : three\n", "")).name == "file"


def test_nodes_come_by_ascending_id_and_the_depot_first(read) -> None:
    """Whatever the order of each section, node 0 is the depot and the others ascend by their ids."""
    instance = read(CVRP_TEXT)
    np.testing.assert_array_equal(instance.node_ids, [20, 10, 30])
    np.testing.assert_array_equal(instance.coords, [[3, 4], [3, 0], [0, 0]])
    np.testing.assert_array_equal(instance.demand, [0, 4, 7])
    assert instance.capacity == 10


def test_whole_numbers_may_be_written_as_floats(read) -> None:
    """Capacities and demands such as 10.0 and 4e0 are whole numbers."""
    assert_same(read(CVRP_TEXT.replace(": 10", ": 1.0e1").replace("10 4\n", "10 4.0\n")), read(CVRP_TEXT))


def test_depot_list_may_lack_its_end(read) -> None:
    """A depot list that the next keyword ends needs no -1."""
    assert_same(read(CVRP_TEXT.replace("-1\n", "")), read(CVRP_TEXT))


def test_missing_file_is_a_format_error(tmp_path: Path) -> None:
    """A file that is not there gives the same kind of error as a broken one."""
    with pytest.raises(InstanceFormatError, match=r"none\.tsp: cannot be read"):
        read_instance(tmp_path / "none.tsp")


# Metrics and rounding


@pytest.mark.parametrize(
    ("kind", "rounding", "length"),
    [
        ("EUC_2D", None, 3.0),
        ("CEIL_2D", None, 3.0),
        ("EXACT_2D", None, 2.5),
        ("EUC_2D", "none", 2.5),
        ("EUC_2D", "ceil", 3.0),
        ("CEIL_2D", "nint", 3.0),
        ("CEIL_2D", "none", 2.5),
        ("EXACT_2D", "nint", 3.0),
    ],
)
def test_a_distance_of_two_and_a_half(read, kind: str, rounding: str | None, length: float) -> None:
    """Half is rounded up, unless the file or the caller wants no rounding."""
    text = TSP_TEXT.replace("EUC_2D", kind).replace("3.0 0", "2.5 0")
    instance = read(text, rounding=rounding)
    assert instance.edge_lengths(np.array([0]), np.array([1])) == length


def test_nint_and_ceil_differ_below_a_half(read) -> None:
    """A distance of 2.25 is 2 to the nearest integer and 3 rounded up."""
    text = TSP_TEXT.replace("3.0 0", "2.25 0")
    lengths = [read(text, rounding=rounding).distance_matrix()[0, 1] for rounding in ("nint", "ceil", "none")]
    assert lengths == [2.0, 3.0, 2.25]


def test_unknown_rounding_is_refused(read) -> None:
    """A rounding that does not exist is a usage error, not a silent default."""
    with pytest.raises(UsageError, match="floor"):
        read(TSP_TEXT, rounding="floor")


def test_rounding_leaves_other_metrics_alone(read) -> None:
    """GEO has one definition, whatever rounding is asked for."""
    assert read(TSP_TEXT.replace("EUC_2D", "GEO"), rounding="none").metric == "GEO"


def test_another_rounding_drops_the_reference(read) -> None:
    """A reference cost is valid for its own rounding only."""
    instance = read(TSP_TEXT).with_reference(12, "optimal")
    assert with_rounding(instance, "nint").reference is instance.reference
    assert with_rounding(instance, "none").reference is None


def geo_distance(one: tuple[float, float], two: tuple[float, float], whole=math.trunc) -> int:
    """Distance of TSPLIB95's section 2.4, number by number."""
    pi = 3.141592

    def radians(value: float) -> float:
        degrees = whole(value)
        return pi * (degrees + 5.0 * (value - degrees) / 3.0) / 180.0

    (latitude1, longitude1), (latitude2, longitude2) = ([radians(value) for value in place] for place in (one, two))
    q1, q2 = math.cos(longitude1 - longitude2), math.cos(latitude1 - latitude2)
    q3 = math.cos(latitude1 + latitude2)
    return int(6378.388 * math.acos(0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3)) + 1.0)


def test_negative_degrees_are_truncated_toward_zero(read) -> None:
    """Latitude -33.55 is 33 degrees 55 minutes south; rounding its degrees down would give another distance."""
    cape_town, cairo = (-33.55, 18.22), (30.03, 31.15)
    text = TSP_TEXT.replace("EUC_2D", "GEO").replace("1 0 0", "1 -33.55 18.22").replace("2 3.0 0", "2 30.03 31.15")
    length = read(text).distance_matrix()[0, 1]
    assert length == geo_distance(cape_town, cairo)
    assert length != geo_distance(cape_town, cairo, whole=math.floor)


# Explicit matrices

TRIANGLES = {
    "LOWER_ROW": lambda weights: weights[np.tril_indices(len(weights), -1)],
    "LOWER_DIAG_ROW": lambda weights: weights[np.tril_indices(len(weights))],
    "UPPER_ROW": lambda weights: weights[np.triu_indices(len(weights), 1)],
    "UPPER_DIAG_ROW": lambda weights: weights[np.triu_indices(len(weights))],
    "FULL_MATRIX": lambda weights: weights.ravel(),
    # Columns of a triangle, spelt out one by one.
    "UPPER_COL": lambda weights: [weights[i, j] for j in range(len(weights)) for i in range(j)],
    "LOWER_COL": lambda weights: [weights[i, j] for j in range(len(weights)) for i in range(j + 1, len(weights))],
    "UPPER_DIAG_COL": lambda weights: [weights[i, j] for j in range(len(weights)) for i in range(j + 1)],
    "LOWER_DIAG_COL": lambda weights: [weights[i, j] for j in range(len(weights)) for i in range(j, len(weights))],
}


def explicit_text(layout: str, numbers: list[float], dimension: int, wrap: int, extra: str = "") -> str:
    """Write an explicit matrix with ``wrap`` numbers to a line."""
    rows = [" ".join(map(repr, numbers[start : start + wrap])) for start in range(0, len(numbers), wrap)]
    head = f"TYPE : TSP\nDIMENSION : {dimension}\nEDGE_WEIGHT_TYPE : EXPLICIT\nEDGE_WEIGHT_FORMAT : {layout}\n"
    return "\n".join([head + extra + "EDGE_WEIGHT_SECTION", *rows, "EOF\n"])


def symmetric(dimension: int, seed: int) -> np.ndarray:
    """Draw a symmetric matrix whose diagonal is 9999, as in some files of TSPLIB."""
    weights = np.random.default_rng(seed).integers(1, 99, (dimension, dimension)).astype(float)
    weights = np.tril(weights, -1) + np.tril(weights, -1).T
    np.fill_diagonal(weights, 9999.0)
    return weights


@pytest.mark.parametrize("layout", TRIANGLES)
@pytest.mark.parametrize("wrap", [1, 4, 1000])
def test_every_layout_gives_the_same_matrix(read, layout: str, wrap: int) -> None:
    """A matrix reads the same in every layout, wrapped anywhere, and its diagonal becomes 0."""
    weights = symmetric(7, seed=1)
    instance = read(explicit_text(layout, [float(w) for w in TRIANGLES[layout](weights)], 7, wrap))
    np.fill_diagonal(weights, 0.0)
    np.testing.assert_array_equal(instance.weights, weights)
    assert instance.coords is None


def test_lower_row_on_one_line(read) -> None:
    """The numbers 1..6 of a wrapped LOWER_ROW matrix of four nodes go to their places."""
    weights = read(explicit_text("LOWER_ROW", [1, 2, 3, 4, 5, 6], 4, wrap=6)).weights
    assert [weights[edge] for edge in ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2))] == [1, 2, 3, 4, 5, 6]


def test_display_coordinates_become_the_coordinates(read) -> None:
    """Coordinates for display stand beside an explicit matrix, and lengths stay those of the matrix."""
    display = "DISPLAY_DATA_TYPE : TWOD_DISPLAY\nDISPLAY_DATA_SECTION\n2 5 6\n1 3 4\n3 7 8\n"
    instance = read(explicit_text("UPPER_ROW", [10, 20, 30], 3, 2, display))
    np.testing.assert_array_equal(instance.coords, [[3, 4], [5, 6], [7, 8]])
    assert instance.edge_lengths(np.array([0, 1]), np.array([2, 2])).tolist() == [20, 30]


def test_depot_of_a_matrix_moves_with_its_row(read) -> None:
    """When node 2 of an explicit CVRP is the depot, its row and column become the first."""
    text = explicit_text("LOWER_ROW", [12, 13, 23], 3, 3).replace("TSP", "CVRP\nCAPACITY : 9").replace("EOF\n", "")
    instance = read(text + "DEMAND_SECTION\n1 5\n2 0\n3 6\nDEPOT_SECTION\n2\n-1\nEOF\n")
    np.testing.assert_array_equal(instance.weights, [[0, 12, 23], [12, 0, 13], [23, 13, 0]])
    np.testing.assert_array_equal(instance.demand, [0, 5, 6])


def test_matrix_without_coordinates_gets_them_by_classical_scaling(read) -> None:
    """Coordinates for networks recover a Euclidean matrix's distances, while the cost stays the matrix's."""
    places = np.random.default_rng(5).random((20, 2)) * 100
    exact = np.linalg.norm(places[:, None] - places[None], axis=-1)
    instance = read(explicit_text("LOWER_ROW", exact[np.tril_indices(20, -1)].tolist(), 20, 7))
    found = instance.network_coords
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found[None], axis=-1), exact, atol=1e-9)
    ring = np.arange(20)
    assert Solution.judged(instance, [ring]).cost == pytest.approx(exact[ring, np.roll(ring, -1)].sum(), rel=1e-15)


def test_cost_of_a_non_euclidean_matrix_is_the_matrix_s(read) -> None:
    """Where no plane has the matrix's distances, the cost still is the sum of its entries."""
    instance = read(explicit_text("LOWER_ROW", [1, 100, 1, 1, 100, 1], 4, 3))
    assert Solution.judged(instance, [np.array([0, 1, 2, 3])]).cost == 1 + 1 + 1 + 1
    assert np.isfinite(instance.network_coords).all()


# Writing


@st.composite
def instances(draw) -> Instance:
    """Draw instances whose nodes stand in the reader's order, with any coordinates, ids, metric and depot."""
    size = draw(st.integers(2, 8))
    problem = draw(st.sampled_from(["tsp", "cvrp"]))
    metric = draw(st.sampled_from(["EUC_2D", "CEIL_2D", "EXACT", "ATT", "GEO", "EXPLICIT"]))
    number = st.floats(-1e15, 1e15, allow_nan=False)
    ids = np.array(sorted(draw(st.sets(st.integers(0, 10**9), min_size=size, max_size=size))))
    has_coords = metric != "EXPLICIT" or draw(st.booleans())
    if problem == "tsp" and not has_coords:
        ids = np.arange(1, size + 1)
    demand = capacity = None
    if problem == "cvrp":
        capacity = draw(st.integers(1, 2**40))
        demand = np.array([0, *draw(st.lists(st.integers(0, capacity), min_size=size - 1, max_size=size - 1))])
        depot = draw(st.integers(0, size - 1))
        ids = np.concatenate([ids[[depot]], np.delete(ids, depot)])
    weights = None
    if metric == "EXPLICIT":
        values = np.array(draw(st.lists(number, min_size=size * size, max_size=size * size))).reshape(size, size)
        weights = np.tril(values, -1) + np.tril(values, -1).T
    pairs = st.lists(st.tuples(number, number), min_size=size, max_size=size)
    coords = np.array(draw(pairs)) if has_coords else None
    name = draw(st.text("abcXYZ-_.:0123 é", min_size=1, max_size=12).map(lambda text: " ".join(text.split())))
    return Instance(name or "name", problem, coords, metric, weights, demand, capacity, ids)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(instances())
def test_writing_and_reading_is_exact(tmp_path_factory: pytest.TempPathFactory, instance: Instance) -> None:
    """An instance that is written and read again is the same to the last bit, ids and depot included."""
    path = tmp_path_factory.getbasetemp() / "round_trip.tsp"
    write_instance(instance, path)
    assert_same(read_instance(path), instance)


def test_written_depot_stands_in_its_old_place(read, tmp_path: Path) -> None:
    """The depot is written among the nodes by its id and named in the depot section."""
    write_instance(read(CVRP_TEXT), tmp_path / "again.vrp")
    lines = (tmp_path / "again.vrp").read_text().splitlines()
    start = lines.index("NODE_COORD_SECTION")
    assert lines[start + 1 : start + 4] == ["10 3 0", "20 3 4", "30 0 0"]
    assert lines[lines.index("DEPOT_SECTION") + 1] == "20"


def test_ids_that_the_format_cannot_hold_are_refused(tmp_path: Path) -> None:
    """Neither negative ids nor the ids of a mere matrix can be written, so they are not lost in silence."""
    negative = Instance("negative", "tsp", np.eye(2), node_ids=np.array([-1, 2]))
    matrix = Instance("matrix", "tsp", metric="EXPLICIT", weights=1 - np.eye(2), node_ids=np.array([5, 7]))
    for instance in (negative, matrix):
        with pytest.raises(UsageError, match=instance.name):
            write_instance(instance, tmp_path / "file.tsp")
    assert not (tmp_path / "file.tsp").exists()


# Size


def test_a_hundred_thousand_nodes_take_linear_memory(tmp_path: Path) -> None:
    """A CVRP of 100,000 nodes is read with its values right and at most 100 MB, where a matrix would take 80 GB."""
    size = 100_000
    rng = np.random.default_rng(0)
    coords = rng.random((size, 2))
    demand = np.concatenate([[0], rng.integers(1, 10, size - 1)])
    path = tmp_path / "large.vrp"
    write_instance(Instance("large", "cvrp", coords, "EUC_2D", demand=demand, capacity=50), path)
    tracemalloc.start()
    try:
        instance = read_instance(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(instance.coords, coords)
    np.testing.assert_array_equal(instance.demand, demand)
    assert peak < 100e6
