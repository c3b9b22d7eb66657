"""nco.eval.suite: suites from YAML, read strictly."""

from pathlib import Path

import numpy as np
import pytest

from nco.data import write_instance
from nco.errors import UsageError
from nco.eval.suite import Benchmark, DataFiles, Generated, SolverEntry, read_suite
from nco.instance import Instance

GOOD = """
name: small
seed: 3
reference: best
instances:
  - data/one.tsp
  - {path: data, rounding: none, offset: 1, limit: 2}
  - {generate: clustered, problem: tsp, size: 20, count: 2, seed: 7, options: {clusters: 5}}
  - {benchmark: cvrp, size: 30, count: 1, capacity: 200}
solvers:
  - lkh
  - {solver: ils, label: best, time_limit: 1e-1, options: {a: 1e-3}, batch_size: 4}
"""


def write(folder: Path, text: str) -> Path:
    """Write a suite into a folder."""
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_field_is_read(tmp_path):
    """All kinds of entries arrive as they are written, paths relative to the suite."""
    suite = read_suite(write(tmp_path, GOOD))
    assert (suite.name, suite.seed, suite.reference) == ("small", 3, "best")
    assert suite.instances == (
        DataFiles(tmp_path / "data/one.tsp"),
        DataFiles(tmp_path / "data", "none", 1, 2),
        Generated("clustered", "tsp", 20, 2, 7, {"clusters": 5}),
        Benchmark("cvrp", 30, 1, 200),
    )
    assert suite.solvers == (SolverEntry("lkh", "lkh"), SolverEntry("ils", "best", {"a": 0.001}, 0.1, 4))


def test_defaults(tmp_path):
    """A suite is called after its file, has the seed 1 and takes references from files."""
    suite = read_suite(write(tmp_path, "instances: [x.tsp]\nsolvers: [lkh]"))
    assert (suite.name, suite.seed, suite.reference) == ("suite", 1, "file")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "suite.yaml: must be a mapping"),
        ("instances: [", "suite.yaml:1: "),
        ("solvers: [lkh]", "suite.yaml: the key 'instances' is missing"),
        ("instances: [a.tsp]\nsolvers: []", "suite.yaml: solvers must be a list with at least one entry"),
        ("instances: [a.tsp]\nsolvers: [lkh]\nsede: 1", "suite.yaml: unknown key 'sede'; known are name, instances"),
        ("instances: [a.tsp]\nsolvers: [lkh]\nseed: x", "suite.yaml: seed must be a whole number, not 'x'"),
        ("instances: [a.tsp]\nsolvers: [lkh]\nseed: true", "suite.yaml: seed must be a whole number, not True"),
        ("instances: [a.tsp]\nsolvers: [lkh]\nseed: -1", "suite.yaml: seed must be at least 0, not -1"),
        ("instances: [a.tsp]\nsolvers: [lkh]\nsolvers: [hgs]", "suite.yaml:3: the key 'solvers' is given twice"),
        ("instances: [a.tsp]\nsolvers: [lkh, lkh]", "suite.yaml: two solvers are labelled 'lkh'"),
        (
            "instances: [a.tsp]\nsolvers: [lkh]\nreference: hgs",
            "suite.yaml: the reference must be 'file' or one of lkh",
        ),
        ("instances: [a.tsp]\nsolvers: [{label: x}]", "suite.yaml: solvers[0]: the key 'solver' is missing"),
        ("instances: [3]\nsolvers: [lkh]", "suite.yaml: instances[0]: must be a mapping"),
        (
            "instances: [a.tsp]\nsolvers: [lkh, {solver: ils, time_limit: 0}]",
            "suite.yaml: solvers[1]: time_limit must be above 0, not 0",
        ),
        (
            "instances: [{generate: uniform, problem: tsp, size: 5, count: 1}]\nsolvers: [lkh]",
            "suite.yaml: instances[0]: the key 'seed' is missing",
        ),
        (
            "instances: [{path: a.tsp, size: 5}]\nsolvers: [lkh]",
            "suite.yaml: instances[0]: unknown key 'size'; known are path, rounding, offset, limit",
        ),
    ],
)
def test_errors_name_file_and_key(tmp_path, text, complaint):
    """Whatever is wrong, the complaint begins with the file, the place in it and the key."""
    with pytest.raises(UsageError) as caught:
        read_suite(write(tmp_path, text))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))


def test_a_missing_suite(tmp_path):
    """A suite that is not there is named."""
    with pytest.raises(UsageError, match=r"absent\.yaml: No such file"):
        read_suite(tmp_path / "absent.yaml")


def test_instances_of_all_kinds(tmp_path):
    """Files are cut to offset and limit, and generated instances are the same every time."""
    for number in range(4):
        coords = np.random.default_rng(number).integers(0, 100, (5, 2))
        write_instance(Instance(f"i{number}", "tsp", coords, "EUC_2D"), tmp_path / f"i{number}.tsp")
    entries = "[{path: ., offset: 1, limit: 2}, {generate: uniform, problem: tsp, size: 6, count: 2, seed: 1}]"
    suite = read_suite(write(tmp_path, f"instances: {entries}\nsolvers: [lkh]"))
    instances, again = suite.load(), suite.load()
    assert [instance.num_nodes for instance in instances] == [5, 5, 6, 6]
    assert [instance.name for instance in instances[:2]] == ["i1", "i2"]
    np.testing.assert_array_equal(instances[3].coords, again[3].coords)


def test_an_offset_beyond_the_end(tmp_path):
    """An entry that stands for no instance is an error."""
    write_instance(Instance("x", "tsp", np.eye(2), "EUC_2D"), tmp_path / "x.tsp")
    suite = read_suite(write(tmp_path, "instances: [{path: x.tsp, offset: 1}]\nsolvers: [lkh]"))
    with pytest.raises(UsageError, match="has 1 instances, none from number 1 on"):
        suite.load()
