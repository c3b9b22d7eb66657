"""The folder tests/bad holds small files that must fail; this table says where and why."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.data import read_any, read_routes
from nco.errors import InstanceFormatError
from nco.instance import Instance

BAD = Path(__file__).resolve().parents[1] / "bad"

# file -> (line, a word of the reason); formats that are not text have no lines.
EXPECTED: dict[str, tuple[int | None, str]] = {
    "binary.tsp": (6, "this is not a text file"),
    "capacity_fraction.pkl": (None, "row 0: the capacity 3.5 is not a whole number"),
    "capacity_fraction.vrp": (5, "CAPACITY must be a whole number, not '10.5'"),
    "capacity_missing.npz": (None, "demand and capacity come together, and one is missing"),
    "capacity_missing.vrp": (18, "CAPACITY is missing"),
    "capacity_zero.vrp": (5, "CAPACITY must be at least 1, is 0"),
    "coordinate_nan.tsp": (8, "NODE_COORD_SECTION: 'nan' is not a finite number"),
    "coordinate_overflow.tsp": (8, "NODE_COORD_SECTION: '1e999' is not a finite number"),
    "coordinate_text.tsp": (8, "NODE_COORD_SECTION: 'x' is not a finite number"),
    "coordinate_underscore.tsp": (8, "NODE_COORD_SECTION: '3_0' is not a finite number"),
    "coordinates_missing.tsp": (5, "NODE_COORD_SECTION is missing"),
    "coords_missing.npz": (None, "has no coords, only tour"),
    "coords_nan.npz": (None, "row 0: instance 'coords_nan-0': node 2 has a coordinate that is not finite"),
    "customer_missing.sol": (2, "customer 3 is not served; 1 of 3 are missing"),
    "customer_text.sol": (2, "'three' is not a whole number"),
    "customer_twice.sol": (2, "customer 1 is already served on line 1"),
    "customer_unknown.sol": (2, "there is no customer 4; the instance has 3"),
    "demand_above_capacity.npz": (None, "the demand 9 of node 3 is above the capacity 5"),
    "demand_above_capacity.vrp": (14, "DEMAND_SECTION: the demand 11 of node 3 is above the capacity 10"),
    "demand_fraction.vrp": (14, "DEMAND_SECTION: 5.5 is not a whole number"),
    "demand_in_tsp.tsp": (10, "DEMAND_SECTION does not belong to a TSP"),
    "demand_negative.vrp": (14, "DEMAND_SECTION: the demand -5 of node 3 is negative"),
    "demand_of_depot.vrp": (12, "DEMAND_SECTION: the demand 2 of node 1 belongs to the depot, whose demand must be 0"),
    "demand_of_stranger.vrp": (14, "DEMAND_SECTION: node 7 is not among those with coordinates"),
    "demand_section_missing.vrp": (14, "DEMAND_SECTION is missing"),
    "demand_too_few.vrp": (14, "DEMAND_SECTION: 3 nodes, but DIMENSION is 4"),
    "demand_too_short.npz": (None, "demand of the shape [1, 2] and type int64 does not fit 1 instances of 3 nodes"),
    "depot_after_end.vrp": (19, "DEPOT_SECTION: 3 follows the -1 that ends the list"),
    "depot_list_empty.vrp": (17, "DEPOT_SECTION: 0 depots; exactly one is supported"),
    "depot_section_missing.vrp": (16, "DEPOT_SECTION is missing"),
    "depot_stranger.vrp": (17, "DEPOT_SECTION: the depot 9 is no node of the file"),
    "depot_two.vrp": (18, "DEPOT_SECTION: 2 depots; exactly one is supported"),
    "dimension_differs.tour": (3, "DIMENSION is 5, but the instance has 4 nodes"),
    "dimension_missing.tsp": (9, "DIMENSION is missing"),
    "dimension_one.tsp": (3, "DIMENSION must be at least 2, is 1"),
    "dimension_text.tsp": (3, "DIMENSION must be a whole number, not 'four'"),
    "empty.tsp": (1, "the file is empty"),
    "field_twice.tsp": (5, "DIMENSION occurs twice"),
    "fixed_edges.tsp": (11, "FIXED_EDGES_SECTION: fixed edges are not supported"),
    "fleet_limit.vrp": (6, "VEHICLES: a limit on the fleet is not supported"),
    "id_fraction.tsp": (9, "NODE_COORD_SECTION: 3.5 is not a whole number"),
    "id_negative.tsp": (9, "NODE_COORD_SECTION: the node id -4 is negative"),
    "id_twice.tsp": (9, "NODE_COORD_SECTION: the node id 2 occurs twice"),
    "keyword_misplaced_text.tsp": (8, "the keyword 'NAN' is unknown or not supported"),
    "keyword_unknown.tsp": (5, "the keyword 'CITY_COORD_SECTION' is unknown or not supported"),
    "lehd_capacity_missing.txt": (2, "'capacity' is missing"),
    "lehd_coordinate_missing.txt": (2, "the coordinates: 5 numbers are not pairs of x and y"),
    "lehd_demand_above_capacity.txt": (2, "the demand 16 of node 4 is above the capacity 10"),
    "lehd_flags_too_few.txt": (2, "5 numbers follow node_flag, 3 customers need twice as many"),
    "lehd_library_odd.txt": (1, "the coordinates: 5 numbers are not pairs of x and y"),
    "lehd_line_truncated.txt": (2, "the line holds no instance: there is neither 'output' nor 'depot' in it"),
    "lehd_number_text.txt": (2, "the coordinates: 'zero' is not a finite number"),
    "lehd_overloaded.txt": (2, "route 0 carries 15, above the capacity 10"),
    "lehd_tour_incomplete.txt": (2, "node 1 is visited 0 times"),
    "matrix_asymmetric.tsp": (10, "asymmetric at row 4, column 2"),
    "matrix_format_missing.tsp": (9, "EDGE_WEIGHT_FORMAT is missing"),
    "matrix_format_unknown.tsp": (5, "EDGE_WEIGHT_FORMAT 'FUNCTION' is not supported for explicit weights"),
    "matrix_missing.tsp": (6, "EDGE_WEIGHT_SECTION is missing"),
    "matrix_of_coordinates.tsp": (10, "EDGE_WEIGHT_SECTION: weights are given although EDGE_WEIGHT_TYPE is EUC_2D"),
    "matrix_too_large.tsp": (3, "explicit matrices are supported up to 5000 nodes, this has 6000"),
    "matrix_too_long.tsp": (10, "EDGE_WEIGHT_SECTION: 7 weights, but LOWER_ROW of 4 nodes needs 6"),
    "matrix_too_short.tsp": (9, "EDGE_WEIGHT_SECTION: 5 weights, but LOWER_ROW of 4 nodes needs 6"),
    "metric_missing.tsp": (9, "EDGE_WEIGHT_TYPE is missing"),
    "metric_three_dimensions.tsp": (4, "'EUC_3D' is not supported"),
    "metric_unknown.tsp": (4, "'XRAY1' is not supported"),
    "no_archive.npz": (None, "this is not an .npz file"),
    "no_archive.pt": (None, "is no file of a plain tensor that torch.load could read"),
    "no_list.pkl": (None, "the pickle holds no list of instances"),
    "node_fraction.tour": (6, "TOUR_SECTION: 2.5 is not a whole number"),
    "node_missing.tour": (8, "TOUR_SECTION: 3 nodes are visited, the instance has 4"),
    "node_truncated.tsp": (9, "NODE_COORD_SECTION: a line must hold 'id x y', this one has 2 values"),
    "node_twice.tour": (8, "TOUR_SECTION: node 2 is visited twice"),
    "node_unknown.tour": (8, "TOUR_SECTION: 8 is no node of the instance"),
    "nodes_too_few.tsp": (8, "NODE_COORD_SECTION: 3 nodes, but DIMENSION is 4"),
    "nodes_too_many.tsp": (10, "NODE_COORD_SECTION: 6 nodes, but DIMENSION is 4"),
    "numbers_in_header.tsp": (5, "'1' stands outside a section"),
    "objects.npz": (None, "cannot be read as .npz"),
    "old_count_differs.sol": (4, "2 routes, but the file's second line says 3"),
    "old_stops_differ.sol": (4, "as many visits as STOPS says"),
    "old_truncated.sol": (4, "as many visits as STOPS says"),
    "overloaded.sol": (2, "the route carries 11, above the capacity 10"),
    "route_limit.vrp": (6, "DISTANCE: a limit on the length of routes is not supported"),
    "route_line_broken.sol": (3, "'Tour: 3 1' is neither a route nor a statement such as 'Cost 784'"),
    "runs_code.pkl": (None, "cannot be read as a pickle of plain values: it asks for os.system"),
    "section_missing.tour": (2, "TOUR_SECTION is missing"),
    "section_twice.tsp": (10, "NODE_COORD_SECTION occurs twice"),
    "statement_broken.sol": (3, "'Cost unknown' is neither a route nor a statement such as 'Cost 784'"),
    "tour_twice.npz": (None, "row 0: instance 'tour_twice-0': node 1 is visited 2 times"),
    "truncated.pkl": (None, "cannot be read as a pickle"),
    "two_tours.tour": (6, "TOUR_SECTION: 4 follows the -1 that ends the list"),
    "type_atsp.tsp": (2, "TYPE 'ATSP' is not supported, only TSP and CVRP are"),
    "type_differs.tour": (2, "TYPE 'TSP', but a tour file has the type TOUR"),
    "type_missing.tsp": (9, "TYPE is missing"),
    "type_unknown.tsp": (2, "TYPE 'TSPTW' is not supported, only TSP and CVRP are"),
}

SQUARE = np.array([[0, 0], [3, 0], [3, 4], [0, 4]])
# What the tours and solutions in the folder are meant for.
TSP = Instance("small", "tsp", SQUARE, "EUC_2D")
CVRP = Instance("small", "cvrp", SQUARE, "EUC_2D", demand=np.array([0, 4, 5, 6]), capacity=10)


def read(path: Path) -> object:
    """Read a file of the folder as what its suffix says."""
    if path.suffix in (".tour", ".sol"):
        return read_routes(path, TSP if path.suffix == ".tour" else CVRP)
    return read_any(path)


@pytest.mark.parametrize("name", EXPECTED)
def test_bad_file_fails_with_its_name_the_line_and_the_reason(name: str) -> None:
    """The error is an InstanceFormatError of one line that names the file, the line and the reason."""
    line, reason = EXPECTED[name]
    with pytest.raises(InstanceFormatError, match=re.escape(reason)) as caught:
        read(BAD / name)
    assert caught.value.line == line
    place = str(BAD / name) if line is None else f"{BAD / name}:{line}"
    assert str(caught.value).startswith(f"{place}: ")
    assert "\n" not in str(caught.value)


def test_every_bad_file_is_expected() -> None:
    """The table and the folder hold the same files."""
    assert {path.name for path in BAD.iterdir()} == set(EXPECTED)


def test_bad_pickle_runs_nothing(tmp_path: Path) -> None:
    """A pickle that calls a function is refused before the call."""
    victim = tmp_path / "made"
    path = tmp_path / "calls.pkl"
    path.write_text(f"cos\nmkdir\n(V{victim}\ntR.")
    with pytest.raises(InstanceFormatError, match=r"asks for (os|posix)\.mkdir"):
        read_any(path)
    assert not victim.exists()


GOOD = {
    ".tsp": "TYPE : TSP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : GEO\nNODE_COORD_SECTION\n1 0 0\n2 3 0\n3 3 4\nEOF\n",
    ".vrp": "TYPE : CVRP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : EXPLICIT\nEDGE_WEIGHT_FORMAT : LOWER_ROW\nCAPACITY : 9\n"
    "EDGE_WEIGHT_SECTION\n3 5\n4\nDEMAND_SECTION\n1 0\n2 4\n3 5\nDEPOT_SECTION\n1\n-1\nEOF\n",
    ".tour": "TYPE : TOUR\nDIMENSION : 4\nTOUR_SECTION\n1 3\n4 2\n-1\nEOF\n",
    ".sol": "27.5\n2\n0 1 1 12 9 4 0 1 2 0\n0 1 2 10 6 3 0 3 0\n",
    ".txt": "depot,0,0,customer,3,0,3,4,capacity,9,demand,0,4,5,cost,12,node_flag,1,2,1,0\n",
    ".pkl": "(lp0\n((lp1\nF0.5\naF0.5\na(lp2\n(lp3\nF0.1\naF0.2\naa(lp4\nI3\naF50.0\ntp5\na.",
}


@settings(derandomize=True, deadline=None, max_examples=300)
@given(data=st.data(), suffix=st.sampled_from(sorted(GOOD)))
def test_damaged_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data, suffix: str) -> None:
    """However a file is damaged, it is read or refused with InstanceFormatError, and nothing else happens."""
    text = GOOD[suffix]
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 20)))
    insert = data.draw(
        st.sampled_from(["", "nan", "-1", "1e400", "9" * 30, "1.5", "x", "\n", " ", "_", ":", "\0", "\x85"])
    )
    path = tmp_path_factory.getbasetemp() / f"damaged_{suffix[1:]}{suffix}"
    path.write_text(text[:start] + insert + text[stop:], encoding="latin-1")
    with suppress(InstanceFormatError):  # any other error fails the test
        read(path)
