"""``nco solve`` on files, with solvers that are fakes."""

import json

import numpy as np
import pytest

from nco.cli import main
from nco.data import read_routes, write_instance
from nco.instance import Instance

pytestmark = pytest.mark.usefixtures("fakes")


@pytest.fixture
def tsp(tmp_path):
    """Write a TSP with a known optimum and node ids of its own."""
    coords = np.array([[0, 0], [0, 3], [4, 3], [4, 0]])
    instance = Instance("square", "tsp", coords, "EUC_2D", node_ids=np.array([2, 4, 6, 8]))
    write_instance(instance, tmp_path / "square.tsp")
    (tmp_path / "best_known.json").write_text('{"square": {"best_known": 14, "optimal": true}}')
    return tmp_path / "square.tsp"


@pytest.fixture
def cvrp(tmp_path):
    """Write a CVRP without a reference."""
    coords = np.array([[0, 0], [0, 3], [4, 3], [4, 0]])
    instance = Instance("trips", "cvrp", coords, "EUC_2D", demand=np.array([0, 1, 1, 1]), capacity=2)
    write_instance(instance, tmp_path / "trips.vrp")
    return tmp_path / "trips.vrp"


def test_table_where_there_is_no_terminal(tsp, cvrp, capsys):
    """Aligned lines have cost, reference, gap and time."""
    assert main(["solve", str(tsp), str(cvrp), "--solver", "fake"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "instance  problem  solver  nodes  cost     reference     gap     time",
        "square    tsp      fake        4    14  14 (optimal)  0.00 %  0.500 s",
        "trips     cvrp     fake        4    24             -       -  0.500 s",
    ]
    assert err.splitlines()[-1].startswith("solve: 2/2")


def test_json_lines(tsp, cvrp, capsys):
    """With --json there is one object a line, with exactly the documented fields and the file's own ids."""
    assert main(["solve", str(tsp), str(cvrp), "--solver", "fake", "--seed", "7", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "name": "square",
        "problem": "tsp",
        "num_nodes": 4,
        "solver": "fake",
        "cost": 14.0,
        "reference": 14.0,
        "gap": 0.0,
        "seconds": 0.5,
        "feasible": True,
        "seed": 7,
        "routes": [[2, 4, 6, 8]],
    }
    assert second["routes"] == [[2], [3], [4]]
    assert second["reference"] is None
    assert second["gap"] is None


def test_rounding(tmp_path, capsys):
    """Distances are rounded as asked for."""
    write_instance(Instance("x", "tsp", np.array([[0, 0], [1, 1]]), "EUC_2D"), tmp_path / "x.tsp")
    costs = {}
    for rounding in ("nint", "ceil", "none"):
        main(["solve", str(tmp_path / "x.tsp"), "--solver", "fake", "--rounding", rounding, "--json"])
        costs[rounding] = json.loads(capsys.readouterr().out)["cost"]
    assert costs == {"nint": 2.0, "ceil": 4.0, "none": pytest.approx(2 * np.sqrt(2))}


def test_solutions_and_pictures(tsp, cvrp, tmp_path):
    """--out has a .tour and a .sol that read back, and --plot a picture of each."""
    out = tmp_path / "new" / "folder"
    assert main(["solve", str(tsp), str(cvrp), "--solver", "fake", "--out", str(out), "--plot"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["square.png", "square.tour", "trips.png", "trips.sol"]
    coords = np.array([[0, 0], [0, 3], [4, 3], [4, 0]])
    square = Instance("square", "tsp", coords, "EUC_2D", node_ids=np.array([2, 4, 6, 8]))
    np.testing.assert_array_equal(read_routes(out / "square.tour", square)[0], [0, 1, 2, 3])
    assert (out / "trips.sol").read_text().startswith("Route #1: 1\nRoute #2: 2\n")
    assert (out / "square.png").read_bytes().startswith(b"\x89PNG")


def test_options_reach_the_solver(tsp, tmp_path):
    """An option is a value, not a text."""
    log = tmp_path / "log"
    options = ["--option", f"log={log}", "--option", "seconds=0.0"]
    assert main(["solve", str(tsp), "--solver", "logged", *options]) == 0
    assert log.read_text() == "square\n"


def test_what_fails_does_not_lose_the_rest(tsp, cvrp, tmp_path, capsys):
    """A failure is exit code 1 and a line; the solutions of other instances are printed and written."""
    words = ["solve", str(tmp_path), "--solver", "partial", "--json", "--out", str(tmp_path / "out")]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["trips"]
    assert "nco: failed: instance 'square': no time left" in err.splitlines()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["trips.sol"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["absent.tsp"], "absent.tsp: there is no such file or folder"),
        (["TSP", "--solver", "absent"], "no solver named 'absent'; there are batched"),
        (["TSP", "--iterations", "3"], "solver 'fake' has no option 'iterations'; it has none"),
        (["TSP", "--option", "iterations=1", "--iterations", "3"], "the iterations are given twice"),
        (["TSP", "--option", "x"], "an option must have the form key=value, not 'x'"),
        (["TSP", "--time-limit", "0"], "--time-limit must be above 0, not 0"),
        (["TSP", "--plot"], "--plot needs --out DIR for its pictures"),
        (["TSP", "TSP", "--out", "out"], "instance 'square' cannot be written into a folder: two instances have"),
        (["CVRP", "--solver", "tsp-only"], "solver 'tsp-only' does not solve 'trips', a CVRP"),
        (["TSP", "--solver", "unavailable"], "needs a package: pip install unavailable"),
    ],
)
def test_bad_input_is_one_line(tsp, cvrp, tmp_path, capsys, monkeypatch, words, complaint):
    """Exit code 2, one line on stderr beside the progress, nothing on stdout."""
    monkeypatch.chdir(tmp_path)
    names = {"TSP": str(tsp), "CVRP": str(cvrp)}
    solver = [] if "--solver" in words else ["--solver", "fake"]
    assert main(["solve", *(names.get(word, word) for word in words), *solver]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = [line for line in err.splitlines() if not line.startswith("solve:")]
    assert line.startswith(f"nco: error: {complaint}")
