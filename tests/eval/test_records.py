"""nco.eval.records: solutions as JSON."""

import json

import numpy as np
import pytest

from nco.eval.records import solution_record, to_json
from nco.instance import Instance
from nco.solution import Solution


def test_record_of_a_solution():
    """Routes are in the file's own ids without the depot, and the gap is a percentage."""
    coords = np.array([[0, 0], [0, 3], [4, 0]])
    instance = Instance("x", "cvrp", coords, demand=np.array([0, 1, 1]), capacity=2, node_ids=np.array([7, 3, 5]))
    solution = Solution.judged(instance, [[2, 1]], seconds=1.5, solver="s", seed=4)
    assert json.loads(to_json(solution_record(instance.with_reference(10.0, "optimal"), solution))) == {
        "name": "x",
        "problem": "cvrp",
        "num_nodes": 3,
        "solver": "s",
        "cost": 12.0,
        "reference": 10.0,
        "gap": pytest.approx(20.0),
        "seconds": 1.5,
        "feasible": True,
        "seed": 4,
        "routes": [[5, 3]],
    }


def test_no_gap_without_a_reference():
    """Reference and gap are null where no reference is known."""
    instance = Instance("x", "tsp", np.array([[0, 0], [1, 1], [2, 0]]))
    record = solution_record(instance, Solution.judged(instance, [[0, 1, 2]]))
    assert record["reference"] is None
    assert record["gap"] is None


def test_json_of_numpy_and_of_numbers_that_json_lacks():
    """Numbers of numpy are numbers, infinite ones null, and tuples lists."""
    record = {"a": np.int64(3), "b": np.array([1.5, np.inf]), "c": (float("nan"), True), "d": {1: None}}
    assert json.loads(to_json(record)) == {"a": 3, "b": [1.5, None], "c": [None, True], "d": {"1": None}}
