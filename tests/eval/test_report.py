"""nco.eval.report: means that are comparable, and their intervals."""

import math

import pytest

from nco.eval.report import confidence_half_width, result_tables, summarise, summary_table


def record(instance: int, solver: str, cost: float | None, reference: float | None = 10.0, **fields) -> dict:
    """Return a record of a TSP with 5 nodes; no cost means a failure."""
    known = cost is not None and reference is not None
    return {
        "instance": instance,
        "name": f"i{instance}",
        "problem": "tsp",
        "num_nodes": 5,
        "solver": solver,
        "cost": cost,
        "reference": reference,
        "reference_kind": None if reference is None else "optimal",
        "gap": 100 * (cost / reference - 1) if known else None,
        "seconds": None if cost is None else float(cost),
        "failure": "ValueError: no idea" if cost is None else None,
        **fields,
    }


def test_confidence_interval_by_hand():
    """2, 3 and 7 have the deviation sqrt((4 + 1 + 9) / 2), and Student's table has 4.303 for two degrees of freedom."""
    assert confidence_half_width([2, 3, 7]) == pytest.approx(4.302653 * math.sqrt(7) / math.sqrt(3), rel=1e-6)


def test_no_interval_for_one_value():
    """One value says nothing about its spread."""
    assert confidence_half_width([2.0]) is None


def test_means_and_interval_of_a_group():
    """Gaps 10, 20 and 30 % have the mean 20 % and the half width 4.303 * 10 / sqrt(3)."""
    [summary] = summarise([record(number, "a", 11.0 + number) for number in range(3)])
    assert (summary.problem, summary.num_nodes, summary.solver) == ("tsp", 5, "a")
    assert (summary.solved, summary.failed, summary.compared) == (3, 0, 3)
    assert summary.gap == pytest.approx(20.0)
    assert summary.interval == pytest.approx(4.302653 * 10 / math.sqrt(3), rel=1e-6)
    assert (summary.cost, summary.seconds) == (12.0, 12.0)


def test_solvers_are_compared_over_the_same_instances():
    """What one solver has failed on counts for no solver's means, but its failure is counted."""
    records = [
        record(0, "a", 11.0),
        record(0, "b", 12.0),
        record(1, "a", 99.0),
        record(1, "b", None),
    ]
    first, second = summarise(records)
    assert (first.solved, first.failed, first.compared, first.cost) == (2, 0, 1, 11.0)
    assert (second.solved, second.failed, second.compared, second.cost) == (1, 1, 1, 12.0)
    assert first.gap == pytest.approx(10.0)


def test_instances_without_a_reference_are_left_out():
    """Where some references are known, all means are over their instances."""
    [summary] = summarise([record(0, "a", 11.0), record(1, "a", 50.0, reference=None)])
    assert (summary.solved, summary.compared, summary.cost) == (2, 1, 11.0)


def test_costs_without_any_reference():
    """Where no reference is known there is no gap, but mean costs are."""
    [summary] = summarise([record(0, "a", 11.0, None), record(1, "a", 13.0, None)])
    assert (summary.compared, summary.gap, summary.interval, summary.cost) == (2, None, None, 12.0)


def test_a_solver_that_has_failed_on_everything():
    """It has no means, and does not take the others' away."""
    first, second = summarise([record(0, "a", 11.0), record(0, "b", None)])
    assert (first.compared, first.cost) == (1, 11.0)
    assert (second.compared, second.failed, second.cost, second.gap, second.seconds) == (0, 1, None, None, None)


def test_negative_gaps():
    """A solver may beat a heuristic reference."""
    [summary] = summarise([record(0, "a", 9.0)])
    assert summary.gap == pytest.approx(-10.0)


def test_groups_by_problem_and_size():
    """Each problem and size is a group, and a problem with several sizes has one group of them all."""
    records = [
        record(0, "a", 11.0, num_nodes=7),
        record(1, "a", 12.0, num_nodes=5),
        record(2, "a", 13.0, problem="cvrp"),
    ]
    assert [(one.problem, one.num_nodes, one.cost) for one in summarise(records)] == [
        ("tsp", 5, 12.0),
        ("tsp", 7, 11.0),
        ("tsp", None, None),
        ("cvrp", 5, 13.0),
    ]


def test_tables_show_failures():
    """The summary counts failures, the list of results marks them, and their reasons have a table, a row each."""
    records = [record(0, "a", 11.0), record(0, "b", None, failure="ValueError: no\nidea")]
    assert summary_table(records).rows[1] == ("tsp", "b", "5", "0", "1", "0", "-", "-", "-", "-")
    results, failures = result_tables(records)
    assert results.rows == [
        ("i0", "a", "5", "11", "10 (optimal)", "10.00 %", "11.0 s"),
        ("i0", "b", "5", "failed", "10 (optimal)", "-", "-"),
    ]
    assert failures.rows == [("i0", "b", "ValueError: no idea")]


def test_no_table_of_no_failures():
    """Where nothing has failed, nothing is said of failures."""
    assert [table.title for table in result_tables([record(0, "a", 11.0)])] == ["Instances"]
