"""nco.eval.evaluator: records of all instances and solvers."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from nco.errors import UsageError
from nco.eval.evaluator import evaluate
from nco.eval.suite import SolverEntry, Suite
from nco.instance import Instance

pytestmark = pytest.mark.usefixtures("fakes")


@dataclass(frozen=True)
class Given:
    """Instances that a test has at hand."""

    instances: tuple[Instance, ...]

    def load(self) -> list[Instance]:
        """Return them."""
        return list(self.instances)


def tsp(number: int, size: int = 5, reference: float | None = None) -> Instance:
    """Return a random TSP called after its number."""
    instance = Instance(f"tsp-{number}", "tsp", np.random.default_rng([size, number]).random((size, 2)))
    return instance if reference is None else instance.with_reference(reference, "optimal")


def cvrp(number: int) -> Instance:
    """Return a random CVRP called after its number."""
    coords = np.random.default_rng(number).random((4, 2))
    return Instance(f"cvrp-{number}", "cvrp", coords, demand=np.array([0, 1, 1, 1]), capacity=2)


def suite(instances, *solvers, **fields) -> Suite:
    """Return a suite of instances and solvers; a solver may be just a name."""
    entries = tuple(SolverEntry(one, one) if isinstance(one, str) else one for one in solvers)
    return Suite("test", (Given(tuple(instances)),), entries, **fields)


def lines(folder) -> list[dict]:
    """Return the records in a folder."""
    return [json.loads(line) for line in (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()]


def test_one_record_for_each_pair(tmp_path):
    """Each instance meets each solver of its problem, and a record says all that is known."""
    comparison = evaluate(suite([tsp(0, reference=1.0), cvrp(1)], "fake", "tsp-only", seed=9), tmp_path)
    pairs = [(record["name"], record["solver"]) for record in comparison.records]
    assert pairs == [("tsp-0", "fake"), ("tsp-0", "tsp-only"), ("cvrp-1", "fake")]
    first = lines(tmp_path)[0]
    assert {key: first[key] for key in ("instance", "problem", "num_nodes", "reference", "reference_kind", "seed")} == {
        "instance": 0,
        "problem": "tsp",
        "num_nodes": 5,
        "reference": 1.0,
        "reference_kind": "optimal",
        "seed": 9,
    }
    assert first["gap"] == pytest.approx(100 * (first["cost"] - 1))
    assert (first["seconds"], first["feasible"], first["failure"]) == (0.5, True, None)
    assert first["routes"] == [[1, 2, 3, 4, 5]]
    assert first["info"] == {"trials": 1}
    assert set(first["versions"]) == {"nco", "torch", "python"}
    assert first["device"] == "cpu"
    assert first["threads"] >= 1


def test_labels_options_and_time_limits_are_recorded(tmp_path):
    """A record has the label of its solver, and the options that the suite states."""
    entry = SolverEntry("fails-on", "mine", {"names": ["other"]}, time_limit=2.5)
    [record] = evaluate(suite([tsp(0)], entry), tmp_path).records
    assert (record["solver"], record["options"], record["time_limit"]) == ("mine", {"names": ["other"]}, 2.5)


def test_failures_are_records(tmp_path):
    """An error is a record with its reason, and the other instances of its chunk still have their solutions."""
    entry = SolverEntry("fails-on", "fails-on", {"names": ["tsp-1"]}, batch_size=3)
    records = evaluate(suite([tsp(0), tsp(1), tsp(2)], entry), tmp_path).records
    assert [record["failure"] for record in records] == [None, "ValueError: no idea about\ntsp-1", None]
    assert (records[1]["cost"], records[1]["gap"], records[1]["feasible"]) == (None, None, False)
    assert lines(tmp_path) == records


def test_solutions_that_a_failure_carries_are_kept(tmp_path):
    """A solver that fails on one instance of several may hand over its solutions of the others."""
    entry = SolverEntry("partial", "partial", batch_size=3)
    records = evaluate(suite([tsp(0), tsp(1), tsp(2)], entry), tmp_path).records
    assert [record["failure"] for record in records] == ["SolverError: instance 'tsp-0': no time left", None, None]


def test_an_unavailable_solver_is_a_failure(tmp_path):
    """A missing package does not stop the other solvers."""
    records = evaluate(suite([tsp(0)], "unavailable", "fake"), tmp_path).records
    assert records[0]["failure"] == "SolverUnavailable: needs a package: pip install unavailable"
    assert records[1]["failure"] is None


def test_every_solution_is_judged_here(tmp_path):
    """A solver that leaves out a node has failed, whatever cost it claims."""
    [record] = evaluate(suite([tsp(0)], "cheat"), tmp_path).records
    assert record["cost"] is None
    assert "InfeasibleSolution" in record["failure"]


def test_a_broken_solver_is_a_fault(tmp_path):
    """A solver that cannot be built for a reason of its own stops the evaluation before anything is written."""
    with pytest.raises(RuntimeError, match="a screw is loose"):
        evaluate(suite([tsp(0)], "fake", "broken"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_solver_without_work_is_an_error(tmp_path):
    """A solver that solves none of the problems is a mistake in the suite."""
    with pytest.raises(UsageError, match="'tsp-only' solves none"):
        evaluate(suite([cvrp(0)], "fake", "tsp-only"), tmp_path)


@pytest.mark.parametrize(
    ("solver", "batch_size", "together"),
    [("batched", None, [3, 1, 3, 3]), ("batched", 2, [2, 1, 2, 1])],
)
def test_same_sizes_are_solved_together(tmp_path, solver, batch_size, together):
    """Instances of one size go to the solver together, in chunks of the batch size."""
    instances = [tsp(0), tsp(1, size=6), tsp(2), tsp(3)]
    records = evaluate(suite(instances, SolverEntry(solver, solver, batch_size=batch_size)), tmp_path).records
    assert [record["info"]["together"] for record in records] == together


def test_solvers_that_say_nothing_get_one_at_a_time(tmp_path):
    """A solver that does not profit from batches is recorded after each instance."""
    seen = []
    evaluate(suite([tsp(0), tsp(1)], "fake"), tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert list(dict.fromkeys(seen)) == [(0, 2), (1, 2), (2, 2)]


def test_a_solver_as_the_reference(tmp_path):
    """Gaps are measured to the reference solver's costs, where it has one, and not to the file's."""
    reference = SolverEntry("fails-on", "best", {"names": ["tsp-1"]})
    instances = [tsp(0, reference=1e-9), tsp(1, reference=1e-9)]
    records = evaluate(suite(instances, "shuffled", reference, reference="best", seed=2), tmp_path).records
    shuffled, best = records[0], records[1]
    assert (shuffled["reference"], shuffled["reference_kind"]) == (best["cost"], "best")
    assert shuffled["gap"] != 0
    assert shuffled["gap"] == pytest.approx(100 * (shuffled["cost"] / best["cost"] - 1))
    assert best["gap"] == 0
    assert records[2]["reference"] is None
    assert records[2]["gap"] is None


def test_what_is_known_is_not_solved_again(tmp_path):
    """A second call solves nothing and returns the same records; a cut last line is solved once more."""
    log = tmp_path / "log"
    one = suite([tsp(number) for number in range(4)], SolverEntry("logged", "logged", {"log": str(log)}))
    records = evaluate(one, tmp_path / "out").records
    assert evaluate(one, tmp_path / "out").records == records
    assert len(log.read_text().split()) == 4
    path = tmp_path / "out/records.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert evaluate(one, tmp_path / "out").records == records
    assert log.read_text().split()[4:] == ["tsp-3"]
    assert lines(tmp_path / "out") == records


def test_a_resumed_chunk_is_solved_as_a_whole(tmp_path):
    """The rest of a half-recorded chunk has the solutions of an unbroken run, and nothing is recorded twice."""
    one = suite([tsp(number) for number in range(3)], "batched")
    records = evaluate(one, tmp_path).records
    path = tmp_path / "records.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    assert evaluate(one, tmp_path).records == records
    assert lines(tmp_path) == records


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"solvers": ["shuffled"]}, "solvers"),
        ({"seed": 2}, "seed"),
        ({"instances": [tsp(0, reference=3.0)]}, "instances"),
    ],
)
def test_another_suite_in_the_same_folder_is_an_error(tmp_path, changed, difference):
    """A folder belongs to one evaluation, and the error says what differs."""
    first = {"instances": [tsp(0)], "solvers": ["fake"], "seed": 1}
    second = {**first, **changed}
    evaluate(suite(first["instances"], *first["solvers"], seed=first["seed"]), tmp_path)
    with pytest.raises(UsageError, match=rf"\({difference} differ\)"):
        evaluate(suite(second["instances"], *second["solvers"], seed=second["seed"]), tmp_path)


def test_a_broken_record_is_named(tmp_path):
    """A line in the middle that is no record is an error with its number."""
    one = suite([tsp(0), tsp(1)], "fake")
    evaluate(one, tmp_path)
    path = tmp_path / "records.jsonl"
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(UsageError, match=r"records\.jsonl:1: is no record"):
        evaluate(one, tmp_path)


def test_failures_are_retried_on_demand(tmp_path, monkeypatch):
    """By default a failure stays; on demand it is tried again, once, with what depends on it."""
    reference = SolverEntry("fails-on", "best", {"names": ["tsp-1"]})
    one = suite([tsp(0), tsp(1)], "shuffled", reference, reference="best")
    before = evaluate(one, tmp_path).records
    monkeypatch.setattr(
        "fake_solvers.FailsOn.solution", lambda self, instance, seed: self.judged(instance, range(5), seed)
    )
    assert evaluate(one, tmp_path).records == before
    after = evaluate(one, tmp_path, retry_failures=True).records
    assert after[:2] == before[:2]
    assert [record["failure"] for record in after] == [None] * 4
    assert after[2]["reference"] == after[3]["cost"]
    assert len(lines(tmp_path)) == 4


def test_limit(tmp_path):
    """Only the first instances are taken."""
    assert len(evaluate(suite([tsp(0), tsp(1), cvrp(2)], "fake"), tmp_path, limit=2).records) == 2
