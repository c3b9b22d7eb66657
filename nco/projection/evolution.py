"""The search for a projection program: evolution with racing evaluation, journalled so that it can be resumed.

After EoH (Liu et al., ICML 2024) as TTPL uses it (arXiv 2506.02392, section 4.1 and appendix E), with changes: the
budget counts scored programs, the seed is never lost, programs that do the same are scored once, instances for search,
selection and the final test are disjoint, and bad programs are dropped after few instances.

Every step of the search makes one record from the state, and the state changes only by applying records. Resuming is
therefore applying those of the journal. Records hold the state of the random numbers and no times, so that a search
that was killed has in the end the same journal, byte for byte, as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from nco.errors import UsageError
from nco.progress import Progress
from nco.projection import grammar
from nco.projection.behaviour import Behaviours, fingerprint
from nco.projection.check import ProgramFailure
from nco.projection.comparison import Comparison, compare
from nco.projection.contract import check_contract
from nco.projection.journal import Journal, Record
from nco.projection.maps import ProjectionMap
from nco.projection.program import Project, as_map
from nco.projection.proposers import NUM_PARENTS, Failed, Individual, Proposal, Proposer, Request

# Costs [P][I] of P maps on I instances, by their numbers: those for search, for validation and for the test follow one
# another. A program that fails while it is used raises its ProgramFailure.
Evaluate = Callable[[Sequence[ProjectionMap], Sequence[int]], Sequence[Sequence[float]]]
# Loads a program where it may run; Sandbox.open in earnest.
Load = Callable[[str], AbstractContextManager[Project]]

# Small steps are the more frequent ones.
_CYCLE = ("m1", "m2", "e2", "m1", "e1", "m2", "m3")
_FAILURES_TOLD = 2


@dataclass(frozen=True)
class SearchOptions:
    """How a search goes.

    Attributes
    ----------
    budget : int
        Programs that are scored, the seed included.
    population : int
        Programs that may be parents; as many are drawn anew at the start.
    stages : tuple of int
        A program is scored on the first so many instances of the search set, stage after stage.
    slack : float
        It is dropped at a stage of n instances if it is worse than the best by more than slack / sqrt(n), relatively.
    finalists : int
        Best programs that are compared on the validation set.
    validation, test : int
        Sizes of these sets.
    proposals : int
        Programs that may be asked for in all; duplicates and failures cost no evaluation, but are counted here.
    seed : int
        Of the random numbers.

    Raises
    ------
    UsageError
        If a number makes no sense.
    """

    budget: int = 200
    population: int = 12
    stages: tuple[int, ...] = (2, 8, 32)
    slack: float = 0.03
    finalists: int = 5
    validation: int = 64
    test: int = 64
    proposals: int = 2_000
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.budget, self.finalists, self.proposals) < 1 or self.population < 2 or self.seed < 0:
            raise UsageError("budget, finalists and proposals must be at least 1, the population 2, the seed 0")
        stages = self.stages
        if not stages or stages[0] < 1 or any(low >= high for low, high in pairwise(stages)):
            raise UsageError(f"stages must be ascending numbers of instances, not {', '.join(map(str, stages))}")
        if min(self.validation, self.test) < 2 or self.slack < 0:
            raise UsageError("validation and test need at least 2 instances each, and the slack must not be negative")

    @property
    def sets(self) -> dict[str, range]:
        """The numbers of the instances for search, validation and test."""
        first = self.stages[-1]
        second = first + self.validation
        return {"search": range(first), "validation": range(first, second), "test": range(second, second + self.test)}


@dataclass(frozen=True)
class Outcome:
    """What a search has found: the winner of the validation, and the seed beside it on the test set."""

    winner: Individual
    comparison: Comparison
    scored: int
    proposed: int
    failures: dict[str, int]
    duplicates: int
    usage: dict[str, float]


class Search:
    """A search that is under way.

    Parameters
    ----------
    problem : {"tsp", "cvrp"}
    size : int
        Nodes of the instances, for the proposer.
    options : SearchOptions
    proposer : Proposer
    evaluate : Evaluate
    load : callable
    journal : Journal
        Opened; what it holds is applied here and now.
    """

    def __init__(
        self,
        problem: str,
        size: int,
        options: SearchOptions,
        proposer: Proposer,
        evaluate: Evaluate,
        load: Load,
        journal: Journal,
    ):
        self.problem, self.size, self.options = problem, size, options
        self.proposer, self.evaluate, self.load, self.journal = proposer, evaluate, load, journal
        self.rng = np.random.default_rng(options.seed)
        self.population: list[Individual] = []  # best first
        self.scored = self.proposed = self.duplicates = 0
        self.failures: dict[str, int] = {}
        self.told: list[Failed] = []
        self.usage: dict[str, float] = {}
        self.behaviours = Behaviours()
        self.seed_costs: tuple[float, ...] = ()
        self.final_costs: dict[str, dict[int, list[float] | None]] = {"validation": {}, "test": {}}
        for record in journal.records:
            self._apply(record)

    def run(self, progress: Progress | None = None) -> Outcome:
        """Search until the budget is used up, select the winner and test it.

        Raises
        ------
        ProgramFailure
            If the seed itself cannot be scored.
        ProposerError
            If the proposer gives up; the search can be resumed later.
        """
        while (step := self._next_step()) is not None:
            if progress:
                progress(min(self.scored, self.options.budget), self.options.budget)
            self._apply(self.journal.append(step()))
        if progress:
            progress(self.options.budget, self.options.budget)
        winner = self._winner()
        test = self.final_costs["test"]
        won, seed = test[winner.number], test[0]
        assert won is not None and seed is not None
        counts = (self.scored, self.proposed, self.failures, self.duplicates, self.usage)
        return Outcome(winner, compare(won, seed), *counts)

    # What comes next.

    def _next_step(self) -> Callable[[], Record] | None:
        """Return what makes the next record; None when the search is over."""
        if self.proposed == 0:
            return self._score_seed
        if self.scored < self.options.budget and self.proposed < self.options.proposals:
            return self._score_next
        for individual in self._finalists():
            if individual.number not in self.final_costs["validation"]:
                return lambda: self._finish("validation", individual)
        for individual in (self._seed(), self._winner()):
            if individual.number not in self.final_costs["test"]:
                return lambda: self._finish("test", individual)
        return None

    def _score_seed(self) -> Record:
        seed = grammar.PUBLISHED["seed"]
        proposal = Proposal("the box of the neighbours, clipped", grammar.source(seed), seed.genes)
        record = self._score("seed", (), proposal)
        if record["outcome"] != "scored":
            raise ProgramFailure(record["kind"], f"the seed cannot be scored: {record['message']}")
        return record

    def _score_next(self) -> Record:
        """Ask for a program and score it."""
        is_start = self.proposed <= self.options.population
        operator = "i1" if is_start else _CYCLE[self.proposed % len(_CYCLE)]
        parents = self._parents(NUM_PARENTS[operator])
        told = tuple(self.told[-_FAILURES_TOLD:])
        request = Request(operator, parents, told, self.problem, self.size, self.proposed)
        return self._score(operator, parents, self.proposer.propose(request, self.rng))

    def _parents(self, count: int) -> tuple[Individual, ...]:
        """Draw parents by rank r = 1, 2, ... with chances in proportion to 1 / r; return them best first."""
        count = min(count, len(self.population))
        if count == 0:
            return ()
        chances = 1.0 / np.arange(1, len(self.population) + 1)
        ranks = self.rng.choice(len(self.population), count, replace=False, p=chances / chances.sum())
        return tuple(self.population[rank] for rank in sorted(ranks))

    def _score(self, operator: str, parents: Sequence[Individual], proposal: Proposal) -> Record:
        """Return the record of a proposal: whether it has failed, is a duplicate, or what it has scored."""
        record: Record = {
            "record": "program",
            "number": self.proposed,
            "operator": operator,
            "parents": [parent.number for parent in parents],
            "proposer": self.proposer.name,
            **asdict(proposal),
        }
        try:
            with self.load(proposal.source) as project:
                check_contract(project)
                record["fingerprint"] = fingerprint(project)
                twin = self.behaviours.twin(record["fingerprint"])
                if twin is None:
                    record.update(outcome="scored", costs=self._race(as_map(project)))
                else:
                    record.update(outcome="duplicate", twin=twin)
        except ProgramFailure as failure:
            record.update(outcome="failed", kind=failure.kind, message=failure.message)
        return {**record, "random": self.rng.bit_generator.state}

    def _race(self, projection: ProjectionMap) -> list[float]:
        """Return the costs of a map on as many instances as it gets to."""
        costs: list[float] = []
        for stage in self.options.stages:
            costs += map(float, self.evaluate([projection], range(len(costs), stage))[0])
            if self.population:
                behind = np.mean(np.divide(costs, self.population[0].costs[:stage])) - 1.0
                if behind > self.options.slack / np.sqrt(stage):
                    break
        return costs

    def _finish(self, kind: str, individual: Individual) -> Record:
        """Return the record of a program's costs on the validation or test set; none if it fails there."""
        record: Record = {"record": kind, "number": individual.number}
        try:
            with self.load(individual.source) as project:
                [costs] = self.evaluate([as_map(project)], self.options.sets[kind])
            return {**record, "costs": list(map(float, costs))}
        except ProgramFailure as failure:
            if kind == "test" or individual.number == 0:
                raise
            return {**record, "costs": None, "kind": failure.kind, "message": failure.message}

    # The state.

    def _apply(self, record: Record) -> None:
        """Change the state by what a record says."""
        if record["record"] != "program":
            self.final_costs[record["record"]][record["number"]] = record["costs"]
            return
        self.proposed += 1
        self.rng.bit_generator.state = record["random"]
        for name, value in (record["usage"] or {}).items():
            if value is not None:
                self.usage[name] = self.usage.get(name, 0) + value
        if record["outcome"] == "failed":
            self.failures[record["kind"]] = self.failures.get(record["kind"], 0) + 1
            self.told.append(Failed(record["source"], record["kind"], record["message"]))
        elif record["outcome"] == "duplicate":
            self.duplicates += 1
        else:
            self.scored += 1
            self.behaviours.add(record["number"], record["fingerprint"])
            self._admit(record)

    def _admit(self, record: Record) -> None:
        """Let a scored program into the population, which keeps its best and always the seed."""
        costs = tuple(record["costs"])
        self.seed_costs = self.seed_costs or costs
        excess = float(np.mean(np.divide(costs, self.seed_costs[: len(costs)]))) - 1.0
        admitted = Individual(record["number"], record["idea"], record["source"], record["genes"], costs, excess)
        ranked = sorted([*self.population, admitted], key=_rank)
        kept = ranked[: self.options.population]
        if all(individual.number for individual in kept):
            kept[-1] = self._seed()
        self.population = kept

    def _seed(self) -> Individual:
        return next(individual for individual in self.population if individual.number == 0)

    def _finalists(self) -> list[Individual]:
        """Return the seed and the best programs that have come through all stages."""
        whole = [one for one in self.population if len(one.costs) == self.options.stages[-1] and one.number]
        return [self._seed(), *whole[: self.options.finalists]]

    def _winner(self) -> Individual:
        """Return the finalist with the least mean ratio to the seed's costs on the validation set."""
        costs = self.final_costs["validation"]
        seed = costs[0]
        assert seed is not None
        whole = [(one, values) for one in self._finalists() if (values := costs[one.number]) is not None]
        return min(whole, key=lambda pair: (float(np.mean(np.divide(pair[1], seed))), pair[0].number))[0]


def _rank(individual: Individual) -> tuple[int, float, int]:
    """Order programs: those that have come further first, then by their mean ratio to the seed, then by age."""
    return -len(individual.costs), individual.excess, individual.number
