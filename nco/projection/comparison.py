"""Paired statistics of two maps on the same instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Comparison:
    """How the costs of one map differ from those of another, in percent of the other's.

    Attributes
    ----------
    mean : float
        Below zero: the first is better.
    low, high : float
        95 % interval of the mean, by Student's t.
    wins, ties, losses : int
        Instances on which the first is better, equal, worse.
    p_value : float
        Of Wilcoxon's signed-rank test, two-sided; 1 if all costs are equal.
    costs, other_costs : tuple of float
    """

    mean: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int
    p_value: float
    costs: tuple[float, ...]
    other_costs: tuple[float, ...]

    def __str__(self) -> str:
        return (
            f"{self.mean:+.3f} % (95 %: {self.low:+.3f} to {self.high:+.3f}), better on {self.wins}, equal on "
            f"{self.ties}, worse on {self.losses} instances, p = {self.p_value:.3g}"
        )


def compare(costs: Sequence[float], other_costs: Sequence[float]) -> Comparison:
    """Compare two maps instance by instance.

    Raises
    ------
    ValueError
        With fewer than two instances, or if the numbers differ.
    """
    from scipy import stats

    if len(costs) != len(other_costs) or len(costs) < 2:
        raise ValueError(f"needs as many costs of both, at least 2, not {len(costs)} and {len(other_costs)}")
    percent = 100.0 * (np.divide(costs, other_costs) - 1.0)
    mean, error = float(percent.mean()), float(percent.std(ddof=1) / np.sqrt(len(percent)))
    margin = error * float(stats.t.ppf(0.975, len(percent) - 1))
    p_value = float(stats.wilcoxon(percent).pvalue) if percent.any() else 1.0
    wins, losses = int((percent < 0).sum()), int((percent > 0).sum())
    ties = len(percent) - wins - losses
    return Comparison(mean, mean - margin, mean + margin, wins, ties, losses, p_value, tuple(costs), tuple(other_costs))
