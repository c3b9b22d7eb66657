"""The table of projections: its cases and rows."""

from __future__ import annotations

import argparse
import runpy

import pytest

import nco
from nco.errors import UsageError

SCRIPT = runpy.run_path(str(nco.shelf("scripts") / "projection_table.py"))
Case = SCRIPT["Case"]


def test_a_case_is_drawn_from_its_seed_with_ttpl_s_capacities() -> None:
    """Clustered instances of the size, the same ones every time."""
    case = Case.parse("cvrp-clustered-1000", 2)
    first, second = case.source.load(), case.source.load()
    assert [instance.num_customers for instance in first] == [1_000, 1_000]
    assert {instance.capacity for instance in first} == {200}
    assert all((one.coords == other.coords).all() for one, other in zip(first, second, strict=True))


def test_stored_sets_come_with_their_references() -> None:
    """Where the shelf has the size, nothing is computed."""
    case = Case.parse("tsp-uniform-1000", 2)
    references = [instance.reference.cost for instance in case.source.load()]
    assert SCRIPT["references_of"](case, None, None) == references


@pytest.mark.parametrize("text", ["tsp", "tsp-uniform", "tsp-uniform-x", "atsp-uniform-10", "tsp-rotated-10"])
def test_other_cases_are_refused(text: str) -> None:
    """One clear error."""
    with pytest.raises(UsageError, match="a case is problem-distribution-size"):
        Case.parse(text, 1)


def test_rows_name_the_published_map_of_the_size_and_skip_what_was_not_found() -> None:
    """The map depends on the case; without --found there are no rows of that name."""
    args = argparse.Namespace(
        maps=["seed", "published", "found"], fusions=["none", "both"], found=None, iterations=0, threads=1, count=3
    )
    args.weights_tsp = args.weights_cvrp = args.registry = args.k = None
    published = {}
    for text in ("tsp-uniform-1000", "tsp-uniform-5000", "cvrp-clustered-100000"):
        rows = list(SCRIPT["entries_of"](Case.parse(text, 3), args))
        assert [(kind, fusion) for kind, fusion, _ in rows] == [
            ("seed", "none"),
            ("seed", "both"),
            ("published", "none"),
            ("published", "both"),
        ]
        published[text] = rows[-1][2].options["map"]
    assert list(published.values()) == ["tsp1k", "tsp5k", "cvrp10k"]
