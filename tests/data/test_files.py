from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from nco.data import Entry, read_any, read_entries, write_folder, write_instance, write_set
from nco.errors import InstanceFormatError, UsageError
from nco.instance import Instance, Reference
from nco.solution import routes_cost

RECTANGLE = np.array([[0, 0], [3, 0], [3, 4.4], [0, 4.4]])
TSP = Instance("rect", "tsp", RECTANGLE, "EUC_2D")
CVRP = Instance("vrp", "cvrp", RECTANGLE, "EUC_2D", demand=np.array([0, 4, 5, 6]), capacity=10)
TOUR = "TYPE : TOUR\nTOUR_SECTION\n1 2 3 4 -1\nEOF\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one TSP and one CVRP."""
    write_instance(TSP, tmp_path / "rect.tsp")
    write_instance(CVRP, tmp_path / "vrp.vrp")
    return tmp_path


def test_published_folders_come_with_their_references(shared: Path) -> None:
    """Every instance of the libraries gets its best-known cost, proven or not, and the routes beside it."""
    tsp, cvrp = (read_entries(shared / "bench" / name) for name in ("tsplib", "cvrplib"))
    for entries, kind, instances, routes in ((tsp, "optimal", 40, 24), (cvrp, "best-known", 34, 34)):
        assert len(entries) == instances
        assert sum(entry.routes is not None for entry in entries) == routes
        assert {entry.instance.reference.kind for entry in entries} == {kind}
        names = [entry.instance.name.lower() for entry in entries]
        assert len(set(names)) == instances
    (berlin52,) = read_any(shared / "bench" / "tsplib" / "berlin52.tsp")
    assert berlin52.reference == Reference(7542, "optimal")


def test_folder_is_read_in_the_order_of_its_names(folder: Path) -> None:
    """Data files are read by name; readmes, solutions, hidden files and folders are passed over."""
    write_set([Instance("row", "tsp", np.eye(2))], folder / "a.npz")
    (folder / "readme.txt").write_text("Where these instances come from.\n")
    (folder / ".hidden.tsp").write_text("half a file")
    (folder / "deeper.tsp").mkdir()
    assert [instance.name for instance in read_any(folder)] == ["row", "rect", "vrp"]


def test_reference_from_the_solution_beside_the_file(folder: Path) -> None:
    """Without a table, an optimal tour or a solution of the same name gives the reference."""
    (folder / "rect.opt.tour").write_text(TOUR)
    (folder / "vrp.sol").write_text("Route #1: 1 2\nRoute #2: 3\nCost 0\n")
    tsp, cvrp = read_any(folder)
    assert tsp.reference == Reference(14, "optimal")
    assert cvrp.reference == Reference(3 + 4 + 5 + 8, "best-known")


def test_mere_tour_is_routes_but_no_reference(folder: Path) -> None:
    """A .tour file may come from any solver: its tour is known, and nothing is measured by it."""
    (folder / "rect.tour").write_text(TOUR)
    instance, routes = read_entries(folder / "rect.tsp")[0]
    assert instance.reference is None
    assert routes[0].tolist() == [0, 1, 2, 3]


def test_table_goes_before_the_solution(folder: Path) -> None:
    """Where best_known.json has the instance, its cost and kind are the reference."""
    (folder / "rect.opt.tour").write_text(TOUR)
    table = {"rect": {"best_known": 13.5, "optimal": False}, "vrp": {"best_known": 19, "kind": "hgs"}}
    (folder / "best_known.json").write_text(json.dumps(table))
    assert [instance.reference for instance in read_any(folder)] == [
        Reference(13.5, "best-known"),
        Reference(19, "hgs"),
    ]


def test_reference_belongs_to_its_rounding(folder: Path) -> None:
    """With another rounding the table no longer holds, and a published tour is a bound, costed anew."""
    (folder / "best_known.json").write_text('{"rect": {"best_known": 14, "optimal": true}}')
    assert read_any(folder / "rect.tsp", rounding="none")[0].reference is None
    assert read_any(folder / "rect.tsp", rounding="nint")[0].reference == Reference(14, "optimal")
    (folder / "rect.opt.tour").write_text(TOUR)
    (exact,) = read_any(folder / "rect.tsp", rounding="none")
    assert (exact.reference.cost, exact.reference.kind) == (pytest.approx(14.8), "best-known")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('{"rect":\n {]}', 2, "not JSON"),
        ("[1]", 1, "object"),
        ('{"rect": {"optimal": true}}', None, "'rect' needs a number"),
        ('{"rect": {"best_known": "x"}}', None, "'rect' needs a number"),
        ('{"rect": 14}', None, "'rect' needs a number"),
    ],
)
def test_broken_table_is_refused(folder: Path, text: str, line: int | None, reason: str) -> None:
    """A best_known.json that cannot be used is an error that names it, not a missing reference."""
    (folder / "best_known.json").write_text(text)
    with pytest.raises(InstanceFormatError, match=reason) as caught:
        read_any(folder / "rect.tsp")
    assert (caught.value.path, caught.value.line) == (folder / "best_known.json", line)


def test_broken_solution_beside_the_file_is_refused(folder: Path) -> None:
    """A solution that is none is an error that names its file and line."""
    (folder / "vrp.sol").write_text("Route #1: 1 2 3\nCost 0\n")
    with pytest.raises(InstanceFormatError, match=r"vrp\.sol:1: the route carries 15"):
        read_any(folder)


def test_suffix_is_known_in_any_case_and_text_by_its_content(folder: Path) -> None:
    """RECT.TSP is a .tsp file, and a .txt file in TSPLIB's format is read as one."""
    shutil.copy(folder / "rect.tsp", folder / "UPPER.TSP")
    shutil.copy(folder / "rect.tsp", folder / "plain.txt")
    for name in ("UPPER.TSP", "plain.txt"):
        assert read_any(folder / name)[0].name == "rect"


@pytest.mark.parametrize("name", ["nothing", "notes.md", "empty"])
def test_nothing_to_read(tmp_path: Path, name: str) -> None:
    """A missing path, a file of an unknown kind and a folder without data are errors that name it."""
    (tmp_path / "notes.md").write_text("notes")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InstanceFormatError, match=name):
        read_any(tmp_path / name)


def test_written_folder_keeps_all_that_is_known(tmp_path: Path) -> None:
    """Instances, references of every kind and routes come back from a folder; other entries of its table stay."""
    entries = [
        Entry(TSP.with_reference(14, "optimal"), [np.array([0, 1, 2, 3])]),
        Entry(CVRP.with_reference(20.5, "hgs"), [np.array([1, 2]), np.array([3])]),
        Entry(Instance("plain", "tsp", np.eye(2) / 3)),
    ]
    (tmp_path / "best_known.json").write_text('{"other": {"best_known": 1}}')
    write_folder(entries, tmp_path)
    again = {entry.instance.name: entry for entry in read_entries(tmp_path)}
    for old in entries:
        new = again[old.instance.name]
        assert new.instance.reference == old.instance.reference
        assert (new.routes is None) == (old.routes is None)
        if old.routes is not None:
            assert routes_cost(new.instance, new.routes) == routes_cost(old.instance, old.routes)
    assert again["plain"].instance.metric == "EXACT"
    assert "other" in json.loads((tmp_path / "best_known.json").read_text())


@pytest.mark.parametrize("names", [("same", "same"), ("a/b", "c"), (".a", "c")])
def test_names_that_are_no_file_names_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    """Two instances of one name, or a name that is a path or hidden, write nothing."""
    target = tmp_path / "target"
    with pytest.raises(UsageError, match="cannot be written"):
        write_folder([Entry(Instance(name, "tsp", np.eye(2))) for name in names], target)
    assert not target.exists()
