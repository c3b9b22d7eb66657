"""Paired statistics and the greedy fitness."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from nco.data.sources import GeneratorSource
from nco.projection.check import ProgramFailure
from nco.projection.comparison import compare
from nco.projection.fitness import GreedyFitness
from nco.projection.grammar import PUBLISHED, source
from nco.projection.maps import MAPS
from nco.projection.program import as_map, compile_program
from nco.search.candidates import Candidates


def nearest_shown(candidates: Candidates) -> torch.Tensor:
    """Prefer the candidate that is shown nearest to the last node, directly where it fits."""
    gaps = (candidates.nodes[..., :2] - candidates.last[:, None, :2]).norm(dim=-1)
    scores = (-gaps).masked_fill(~candidates.mask, -torch.inf)
    if candidates.fits is None:
        return scores
    return torch.cat([scores.masked_fill(~candidates.fits, -torch.inf), scores - 10], dim=1)


def test_comparison_agrees_with_a_paired_t_test() -> None:
    """The interval excludes zero exactly if a paired t-test of the relative differences is significant at 5 %."""
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.002, 0.01):
        other = rng.uniform(10, 11, 20)
        costs = other * (1 + shift + 0.005 * rng.standard_normal(20))
        result = compare(costs, other)
        p_value = stats.ttest_1samp(costs / other - 1, 0).pvalue
        assert (result.low > 0 or result.high < 0) == (p_value < 0.05)
        assert result.wins + result.ties + result.losses == 20


def test_equal_costs_are_no_difference() -> None:
    """Equal costs have a mean and an interval of zero and the p-value 1."""
    result = compare([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert (result.mean, result.low, result.high, result.ties, result.p_value) == (0.0, 0.0, 0.0, 3, 1.0)


def test_one_pair_is_not_enough() -> None:
    """A single pair, or sets of different sizes, cannot be compared."""
    for costs, other in (([1.0], [1.0]), ([1.0, 2.0], [1.0])):
        with pytest.raises(ValueError, match="at least 2"):
            compare(costs, other)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_fitness_is_the_cost_of_judged_tours(problem: str) -> None:
    """With a scorer that looks at distances, an isometry or a zoom changes no cost, and a bent plane does."""
    fitness = GreedyFitness(GeneratorSource("uniform", problem, 40, 5, 4, _options(problem)), nearest_shown, 8)
    bent = as_map(
        compile_program("def project(points):\n    return torch.cat([points[..., :1], points[..., 1:] * 3], -1)\n")
    )
    plain, mirrored, changed = fitness([MAPS["none"], lambda points, mask: 1 - points / 2, bent], range(3))
    assert mirrored == pytest.approx(plain)
    assert changed != pytest.approx(plain)


def test_costs_do_not_depend_on_the_batch() -> None:
    """Instances have the same costs side by side and one by one, and in any order."""
    instances = GeneratorSource("uniform", "tsp", 40, 5, 6)
    seed = as_map(compile_program(source(PUBLISHED["seed"])))
    [together] = GreedyFitness(instances, nearest_shown, 8)([seed], range(6))
    [alone] = GreedyFitness(instances, nearest_shown, 8, batch_size=1)([seed], [5, 2])
    assert alone == [together[5], together[2]]


def test_failure_of_a_map_is_passed_on() -> None:
    """A map that fails during a construction raises its own failure."""

    def failing(points: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        raise ProgramFailure("non-finite", "here")

    with pytest.raises(ProgramFailure, match="here"):
        GreedyFitness(GeneratorSource("uniform", "tsp", 10, 5, 1), nearest_shown, 4)([failing], [0])


def _options(problem: str) -> dict[str, int]:
    return {"capacity": 20} if problem == "cvrp" else {}
