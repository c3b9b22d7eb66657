"""The search for a projection program, with a cheap fitness and the grammar."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from synthetic_search import OPTIONS, DistanceFitness, open_search

from nco.errors import UsageError
from nco.projection.check import ProgramFailure
from nco.projection.evolution import Search, SearchOptions
from nco.projection.grammar import PUBLISHED, source
from nco.projection.journal import Journal
from nco.projection.proposers import Proposal, Request


class Scripted:
    """Proposes given programs one after the other."""

    name = "scripted"

    def __init__(self, *programs: str):
        self.programs = programs
        self.requests: list[Request] = []

    def describe(self) -> dict[str, str]:
        """Return the name."""
        return {"name": self.name}

    def propose(self, request: Request, rng: np.random.Generator) -> Proposal:
        """Return the next program, the last one again and again."""
        self.requests.append(request)
        number = min(request.number, len(self.programs)) - 1
        return Proposal("scripted", self.programs[number])


def records(folder: Path) -> list[dict]:
    """Return the journal of a search."""
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """Return a search by the grammar that has come to its end."""
    search = open_search(tmp_path_factory.mktemp("search"))
    search.run()
    return search


def test_search_improves_on_the_seed(finished: Search) -> None:
    """The winner is clearly better than the seed on instances that the search has never seen."""
    outcome = finished.run()
    assert outcome.comparison.high < -0.5
    assert outcome.winner.number > 0


def test_budget_counts_scored_programs(finished: Search) -> None:
    """The search ends when so many programs are scored, whatever came between them."""
    outcome = finished.run()
    scored = [one for one in finished.journal.records if one.get("outcome") == "scored"]
    assert outcome.scored == len(scored) == OPTIONS.budget
    assert outcome.proposed == outcome.scored + outcome.duplicates + sum(outcome.failures.values())


def test_sets_are_disjoint_and_kept_apart(finished: Search) -> None:
    """Programs are scored on the search set alone, finalists validated on theirs, two programs tested on the last."""
    sets = [set(numbers) for numbers in OPTIONS.sets.values()]
    assert len(set.union(*sets)) == sum(map(len, sets))
    done = finished.journal.records
    assert max(len(one["costs"]) for one in done if one.get("outcome") == "scored") == len(OPTIONS.sets["search"])
    assert len([one for one in done if one["record"] == "validation"]) == OPTIONS.finalists + 1
    assert len([one for one in done if one["record"] == "test"]) == 2


def test_seed_is_never_lost(finished: Search) -> None:
    """However many better programs there are, the seed stays in the population, which keeps its size."""
    assert len(finished.population) == OPTIONS.population
    assert [one.number for one in finished.population].count(0) == 1


def test_finished_search_does_nothing_more(finished: Search) -> None:
    """Running a finished search again scores nothing and gives the same outcome."""
    fitness = DistanceFitness()
    assert open_search(finished.journal.folder, fitness=fitness).run() == finished.run()
    assert fitness.seen == []


def test_bad_programs_are_dropped_early(tmp_path: Path) -> None:
    """A program far behind the best sees only the first stage's instances."""
    far = "def project(points):\n    return points + 100\n"
    options = SearchOptions(budget=2, population=2, stages=(2, 4, 8), validation=2, test=2)
    open_search(tmp_path, Scripted(far), options=options).run()
    assert len(records(tmp_path)[1]["costs"]) == 2


def test_duplicates_cost_no_evaluation(tmp_path: Path) -> None:
    """A program that does what the seed does, mirrored, is known for a duplicate and not scored."""
    fitness = DistanceFitness()
    options = SearchOptions(budget=2, population=2, stages=(2,), validation=2, test=2, proposals=4)
    mirrored = source(PUBLISHED["seed"]).replace("return placed", "return 1 - placed.flip(-1)")
    outcome = open_search(tmp_path, Scripted(mirrored), fitness, options).run()
    assert outcome.duplicates == 3 and outcome.scored == 1
    assert records(tmp_path)[1]["twin"] == 0
    assert fitness.seen.count(0) == 1


def test_failures_are_recorded_and_told(tmp_path: Path) -> None:
    """A program that fails is journalled with its kind, and the next request tells of it."""
    proposer = Scripted("import os", "def project(points):\n    return points / 0\n", "def project(points)")
    options = SearchOptions(budget=2, population=2, stages=(2,), validation=2, test=2, proposals=4)
    outcome = open_search(tmp_path, proposer, options=options).run()
    assert outcome.failures == {"forbidden": 1, "non-finite": 1, "syntax": 1}
    assert [failed.kind for failed in proposer.requests[2].failures] == ["forbidden", "non-finite"]


def test_seed_wins_where_nothing_is_better(tmp_path: Path) -> None:
    """If no program beats the seed on the validation set, the seed is the winner and the difference is zero."""
    options = SearchOptions(budget=3, population=2, stages=(2,), validation=2, test=2, proposals=5)
    outcome = open_search(tmp_path, Scripted("def project(points):\n    return points - 9\n"), options=options).run()
    assert outcome.winner.number == 0
    assert outcome.comparison.mean == outcome.comparison.low == outcome.comparison.high == 0.0


def test_seed_that_fails_ends_the_search(tmp_path: Path) -> None:
    """If the seed itself cannot be scored, something else is broken, and the search says so."""

    class Broken(DistanceFitness):
        def __call__(self, maps, numbers):  # type: ignore[no-untyped-def]
            raise ProgramFailure("crash", "broken")

    with pytest.raises(ProgramFailure, match="the seed cannot be scored: broken"):
        open_search(tmp_path, fitness=Broken()).run()


def test_every_cut_journal_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    """Wherever a kill has cut the journal, the resumed search ends with the same journal and winner."""
    options = SearchOptions(budget=8, population=3, stages=(2, 4), validation=3, test=2, finalists=2)
    whole = open_search(tmp_path / "whole", options=options).run()
    content = (tmp_path / "whole" / "journal.jsonl").read_bytes()
    for trial, cut in enumerate(np.random.default_rng(8).integers(0, len(content), 20)):
        folder = tmp_path / f"cut{trial}"
        open_search(folder, options=options)
        (folder / "journal.jsonl").write_bytes(content[:cut])
        outcome = open_search(folder, options=options).run()
        assert (folder / "journal.jsonl").read_bytes() == content
        assert outcome == whole


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked copy of this process")
def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    """A search that is killed twenty times at random moments ends with the journal and winner of an unbroken one."""
    options = SearchOptions(budget=12, population=3, stages=(2, 4), validation=3, test=2, finalists=2)
    begin = time.monotonic()
    whole = open_search(tmp_path / "whole", options=options).run()
    longest = (time.monotonic() - begin) / 10
    for wait in np.random.default_rng(6).uniform(0, longest, 20):
        pid = os.fork()
        if pid == 0:
            try:
                open_search(tmp_path / "killed", options=options).run()
            finally:
                os._exit(0)
        time.sleep(wait)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert open_search(tmp_path / "killed", options=options).run() == whole
    assert (tmp_path / "killed" / "journal.jsonl").read_bytes() == (tmp_path / "whole" / "journal.jsonl").read_bytes()


def test_another_search_is_not_mixed_in(tmp_path: Path) -> None:
    """A folder refuses a search with another description, naming what differs."""
    Journal(tmp_path, {"seed": 1, "size": 5})
    with pytest.raises(UsageError, match=r"\(seed differ\)"):
        Journal(tmp_path, {"seed": 2, "size": 5})


def test_broken_record_is_refused(tmp_path: Path) -> None:
    """A whole line that is no record is an error with its place."""
    Journal(tmp_path, {})
    (tmp_path / "journal.jsonl").write_text('{"record": 1}\nnonsense\n')
    with pytest.raises(UsageError, match=r"journal\.jsonl:2: is no record"):
        Journal(tmp_path, {})


@pytest.mark.parametrize(
    "options", [{"budget": 0}, {"stages": ()}, {"stages": (4, 4)}, {"test": 1}, {"slack": -1.0}, {"population": 1}]
)
def test_senseless_options_are_refused(options: dict) -> None:
    """Options that make no search are refused before anything starts."""
    with pytest.raises(UsageError):
        SearchOptions(**options)
