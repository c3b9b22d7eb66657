"""A search without a network: a cheap fitness that knows which map is best."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch

from nco.projection.contract import probe_points
from nco.projection.evolution import Load, Search, SearchOptions
from nco.projection.grammar import Sentence, source
from nco.projection.journal import Journal
from nco.projection.maps import ProjectionMap
from nco.projection.program import compile_program
from nco.projection.proposers import GrammarProposer, Proposer

# The map that the cheap fitness likes best.
IDEAL = Sentence(anchor="mid", scale="radius", offset="half", bound="ray")
OPTIONS = SearchOptions(budget=40, population=6, stages=(2, 4, 8), validation=8, test=12, finalists=3, seed=4)


class DistanceFitness:
    """Costs that grow with the distance from the ideal map, with a noise of each instance that all maps share."""

    def __init__(self) -> None:
        self.ideal = compile_program(source(IDEAL))(probe_points())
        self.seen: list[int] = []

    def __call__(self, maps: Sequence[ProjectionMap], numbers: Sequence[int]) -> list[list[float]]:
        """Return the costs of maps on instances."""
        points = probe_points()
        costs = []
        for projection in maps:
            shown = projection(points, torch.ones(points.shape[:2], dtype=torch.bool))
            distance = float((shown - self.ideal).abs().mean())
            self.seen += numbers
            costs.append([(1 + distance) * (10 + np.random.default_rng(number).random()) for number in numbers])
        return costs


def load_here(program: str):  # type: ignore[no-untyped-def]
    """Load a program in this process: only for the tests' own programs."""
    return nullcontext(compile_program(program))


def open_search(
    folder: Path,
    proposer: Proposer | None = None,
    fitness: DistanceFitness | None = None,
    options: SearchOptions = OPTIONS,
    load: Load = load_here,
) -> Search:
    """Open a search in a folder."""
    proposer = proposer or GrammarProposer()
    journal = Journal(folder, {"proposer": proposer.describe(), "seed": options.seed})
    return Search("tsp", 1000, options, proposer, fitness or DistanceFitness(), load, journal)
