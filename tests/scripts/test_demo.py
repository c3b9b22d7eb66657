"""The demonstration's data and suite."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from nco import shelf
from nco.data import read_entries
from nco.eval.suite import read_suite
from nco.solution import routes_cost

DRAWN = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "demo_data.py"))
ENTRIES = {entry.instance.name: entry for entry in read_entries(shelf("data") / "demo")}


@pytest.mark.parametrize("number", range(len(DRAWN["DRAWN"])))
def test_instances_come_from_their_seeds(number):
    """The script draws the files on the shelf again."""
    drawn = DRAWN["draw"](number)
    stored = ENTRIES[drawn.name].instance
    assert (stored.problem, stored.metric, stored.capacity) == (drawn.problem, drawn.metric, drawn.capacity)
    np.testing.assert_array_equal(stored.coords, drawn.coords)
    if stored.problem == "cvrp":
        np.testing.assert_array_equal(stored.demand, drawn.demand)


@pytest.mark.parametrize("name", ENTRIES)
def test_references_are_costs_of_the_stored_solutions(name):
    """A reference is not a mere number: the routes beside it have that cost."""
    instance, routes = ENTRIES[name]
    assert routes_cost(instance, routes) == instance.reference.cost


def test_suite():
    """The suite has all instances, and the neural solver beside LKH, HGS and heuristics."""
    suite = read_suite(shelf("eval") / "demo.yaml")
    assert {instance.name for instance in suite.load()} == set(ENTRIES)
    solvers = {entry.solver for entry in suite.solvers}
    assert {"l2c-insert", "lkh", "hgs", "ils", "random-insertion"} <= solvers
