"""Where the programs of a search come from: one interface, and the offline proposer that writes sentences.

A proposer is chosen by the user and named in every record. None of them ever stands in for another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nco.errors import NcoError
from nco.projection import grammar
from nco.projection.grammar import Sentence

# i1 starts anew; e1 is to be unlike its parents, e2 shares their idea; m1 modifies one parent, m2 tunes its constants,
# m3 simplifies it. EoH (Liu et al., ICML 2024), of which TTPL uses all but m3.
OPERATORS = ("i1", "e1", "e2", "m1", "m2", "m3")
NUM_PARENTS = {"i1": 0, "e1": 2, "e2": 2, "m1": 1, "m2": 1, "m3": 1}


class ProposerError(NcoError, RuntimeError):
    """A proposer that cannot give an answer: an endpoint that refuses or fails for too long, a missing recording."""


@dataclass(frozen=True)
class Individual:
    """A program that has been scored.

    Attributes
    ----------
    number : int
        Its place in the journal's count of programs; 0 is the seed.
    idea, source : str
    genes : dict or None
        Its sentence, if the grammar has written it.
    costs : tuple of float
        Of the first instances of the search set, as many as it has come to.
    excess : float
        Mean of its costs over those of the seed, less 1.
    """

    number: int
    idea: str
    source: str
    genes: Mapping[str, Any] | None
    costs: tuple[float, ...]
    excess: float


@dataclass(frozen=True)
class Failed:
    """A program that has failed, as told to the one who writes the next."""

    source: str
    kind: str
    message: str


@dataclass(frozen=True)
class Request:
    """What is asked of a proposer: the operator, its parents (best first), the last failures, and the count so far."""

    operator: str
    parents: tuple[Individual, ...]
    failures: tuple[Failed, ...]
    problem: str
    size: int
    number: int


@dataclass(frozen=True)
class Proposal:
    """A program that nobody has looked at yet; ``usage`` holds the tokens and the price of the answer."""

    idea: str
    source: str
    genes: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None


class Proposer(Protocol):
    """Writes programs on request."""

    name: str

    def describe(self) -> dict[str, Any]:
        """Return what identifies the proposer, in JSON's types and without any secret."""
        ...

    def propose(self, request: Request, rng: np.random.Generator) -> Proposal:
        """Return a program; ProposerError if there will be none."""
        ...


class GrammarProposer:
    """Applies the operators to sentences of :mod:`nco.projection.grammar`; needs no network and no account."""

    name = "grammar"

    def describe(self) -> dict[str, Any]:
        """Return the parts of the grammar: a search goes on only with the same ones."""
        return {"name": self.name, "parts": {part: list(choices) for part, choices in grammar.PARTS.items()}}

    def propose(self, request: Request, rng: np.random.Generator) -> Proposal:
        """Return the program of a new sentence.

        Raises
        ------
        ProposerError
            If a parent is not of the grammar.
        """
        sentence = _apply(request.operator, [_sentence(parent) for parent in request.parents], rng)
        return Proposal(sentence.idea, grammar.source(sentence), sentence.genes)


def _sentence(parent: Individual) -> Sentence:
    if parent.genes is None:
        raise ProposerError(f"program {parent.number} was not written by the grammar")
    return Sentence.from_genes(parent.genes)


def _apply(operator: str, parents: list[Sentence], rng: np.random.Generator) -> Sentence:
    if operator == "i1":
        return grammar.draw(rng)
    if operator == "e1":
        return grammar.differ(parents, rng)
    if operator == "e2":
        return grammar.share(parents, rng)
    change = {"m1": grammar.vary, "m2": grammar.tune, "m3": grammar.simplify}[operator]
    return change(parents[0], rng)
