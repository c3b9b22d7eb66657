"""What a map is worth: the costs of tours that a network builds greedily when its decisions are projected."""

from __future__ import annotations

from collections.abc import Sequence

from nco.data.sources import Source
from nco.instance import InstanceBatch
from nco.projection.fusion import fused, projected
from nco.projection.maps import ProjectionMap
from nco.search.appending import append_greedily
from nco.search.candidates import CandidateScorer
from nco.solution import Solution, split_giant_tour


class GreedyFitness:
    """Solves numbered instances of a source greedily; a :data:`nco.projection.evolution.Evaluate`.

    The network runs here, with its own threads; only the maps may run elsewhere. Costs come from the judge of
    solutions, which sees tours and instances alone.

    Parameters
    ----------
    source : Source
        Instances of one problem and size.
    scorer : CandidateScorer
    k : int
        Candidates of a decision.
    views : bool
        Fuse the eight symmetries of every projected decision.
    batch_size : int
        Instances that are solved side by side.
    """

    def __init__(self, source: Source, scorer: CandidateScorer, k: int, *, views: bool = False, batch_size: int = 16):
        self.source = source
        self.scorer = fused(scorer) if views else scorer
        self.k = k
        self.batch_size = batch_size

    def __call__(self, maps: Sequence[ProjectionMap], numbers: Sequence[int]) -> list[list[float]]:
        """Return the costs [P][I] of maps on instances.

        Raises
        ------
        ProgramFailure
            If a map fails.
        """
        return [self._costs(projection, list(numbers)) for projection in maps]

    def _costs(self, projection: ProjectionMap, numbers: list[int]) -> list[float]:
        scorer = projected(self.scorer, projection)
        costs: list[float] = []
        for begin in range(0, len(numbers), self.batch_size):
            part = numbers[begin : begin + self.batch_size]
            instances = [self.source.instances(number, number + 1)[0] for number in part]
            tours = append_greedily(InstanceBatch.from_instances(instances), scorer, self.k)
            for instance, tour in zip(instances, tours.numpy(), strict=True):
                costs.append(Solution.judged(instance, split_giant_tour(instance.problem, tour)).cost)
        return costs
