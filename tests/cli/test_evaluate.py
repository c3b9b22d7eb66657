"""``nco evaluate`` on suites and data, with solvers that are fakes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nco.cli import main
from nco.data import write_set
from nco.instance import Instance

pytestmark = pytest.mark.usefixtures("fakes")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Write a set of four TSPs, two of which have references, and work in its folder."""
    monkeypatch.chdir(tmp_path)
    instances = [Instance(f"i{row}", "tsp", np.random.default_rng(row).random((5, 2))) for row in range(4)]
    instances[:2] = [instance.with_reference(2.0, "optimal") for instance in instances[:2]]
    write_set(instances, tmp_path / "set.npz")
    return tmp_path / "set.npz"


def write_suite(folder: Path, solvers: str, name: str = "small") -> Path:
    """Write a suite for the set."""
    path = folder / "suite.yaml"
    path.write_text(f"name: {name}\ninstances: [set.npz]\nsolvers: {solvers}\n")
    return path


def records(folder: Path) -> list[dict]:
    """Return the records in a folder."""
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def test_a_suite_with_tables_and_report(data, capsys):
    """Records, a Markdown table and the page are written, tables are printed, failures are counted."""
    suite = write_suite(data.parent, "[shuffled, {solver: fails-on, options: {names: [i3]}}]")
    assert main(["evaluate", str(suite), "--report", "page.html"]) == 0
    out, err = capsys.readouterr()
    assert len(records(Path("runs/small"))) == 8
    assert "ValueError: no idea about i3" in out
    assert "fails-on      5       3       1     2" in out
    assert "1 of 8 results are failures, see runs/small" in err
    assert Path("page.html").is_file()
    assert Path("runs/small/report.md").read_text().startswith("## small\n")


def test_json_of_data(data, capsys):
    """With --json the records are on stdout, and nothing else."""
    words = ["--data", str(data), "--solver", "fake", "--solver", "shuffled", "--seed", "5", "--json"]
    assert main(["evaluate", *words, "--limit", "3"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert Counter(record["solver"] for record in shown) == {"fake": 3, "shuffled": 3}
    needed = {"name", "problem", "num_nodes", "solver", "cost", "reference", "gap", "seconds", "feasible", "seed"}
    assert all({*needed, "routes"} <= record.keys() and record["seed"] == 5 for record in shown)
    assert [record["gap"] is None for record in shown if record["solver"] == "fake"] == [False, False, True]
    assert main(["evaluate", *words, "--limit", "3"]) == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(again, key=str) == sorted(shown, key=str)


def test_options_of_several_solvers(data, tmp_path, capsys):
    """An option belongs to the solver that it names, and other options to other folders."""
    words = ["evaluate", "--data", str(data), "--solver", "fake", "--solver", "fails-on", "--limit", "1"]
    assert main([*words, "--option", 'fails-on.names=["i0"]']) == 0
    assert main([*words, "--option", 'fails-on.names=["i1"]']) == 0
    first, second = sorted(Path("runs").iterdir())
    failures = {str([record["failure"] for record in records(folder)]) for folder in (first, second)}
    assert failures == {"[None, 'ValueError: no idea about\\ni0']", "[None, None]"}


def test_reference_solver(data, capsys):
    """Gaps are to the costs of the solver that is named."""
    words = ["--data", str(data), "--solver", "shuffled", "--solver", "fake", "--reference", "fake", "--json"]
    assert main(["evaluate", *words, "--out", "out"]) == 0
    assert {record["reference_kind"] for record in records(Path("out"))} == {"fake"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give either a suite or --data"),
        (["suite.yaml", "--data", "set.npz"], "give either a suite or --data"),
        (["suite.yaml", "--seed", "3"], "--seed belongs to --data"),
        (["absent.yaml"], "absent.yaml: No such file or directory"),
        (["--data", "set.npz"], "--data needs at least one --solver"),
        (["--data", "absent.npz", "--solver", "fake"], "absent.npz: there is no such file or folder"),
        (["--data", "set.npz", "--solver", "fake", "--limit", "0"], "--limit must be at least 1, not 0"),
        (["--data", "set.npz", "--solver", "fake", "--time-limit", "-1"], "--time-limit must be above 0, not -1"),
        (["--data", "set.npz", "--solver", "fake", "--option", "other.x=1"], "--option other.x: there is no --solver"),
        (["--data", "set.npz", "--solver", "fake", "--option", "x=1"], "solver 'fake' has no option 'x'"),
        (
            ["--data", "set.npz", "--solver", "fake", "--out", "taken"],
            "taken holds another evaluation (name, solvers differ): give another folder",
        ),
    ],
)
def test_bad_input_is_one_line(data, capsys, words, complaint):
    """Exit code 2 and one line on stderr."""
    write_suite(data.parent, "[shuffled]")
    main(["evaluate", "suite.yaml", "--out", "taken"])
    capsys.readouterr()
    assert main(["evaluate", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith(f"nco: error: {complaint}")


def test_a_killed_run_resumes(data, tmp_path, capsys):
    """After SIGKILL in the middle of a line, the same command does what is left: nothing is lost, nothing twice."""
    log, out = tmp_path / "log", tmp_path / "out"
    options = f"{{log: {log}, seconds: %s}}"
    suite = write_suite(tmp_path, f"[fake, {{solver: logged, options: {options % 0.3}}}]")
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); import fake_solvers; "
        "fake_solvers.install(); from nco.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["evaluate", str(suite), "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (out / "records.jsonl").exists() or len((out / "records.jsonl").read_bytes().splitlines()) < 6:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = (out / "records.jsonl").read_bytes()
    with (out / "records.jsonl").open("ab") as file:
        file.write(before[:50])
    known = records_of(before)
    assert main(words) == 0
    after = records(out)
    assert after[: len(known)] == known
    assert Counter((record["name"], record["solver"]) for record in after) == {
        (f"i{row}", solver): 1 for row in range(4) for solver in ("fake", "logged")
    }
    # Only the instance under way at the kill is solved a second time.
    assert Counter(log.read_text().split()).total() <= 4 + 1


def records_of(content: bytes) -> list[dict]:
    """Return the records in the content of a file."""
    return [json.loads(line) for line in content.splitlines()]
