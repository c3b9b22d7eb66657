"""How options of a training change over its epochs, as in GFACS and AGFN; epochs count from 1."""

from __future__ import annotations

import math

# The last epochs, over which values stay.
FLAT = 5


def logarithmic(low: float, high: float, epoch: int, epochs: int) -> float:
    """Return ``low + (high - low) * ln(epoch) / ln(epochs - 5)``, at most ``high``: of beta."""
    rising = epochs - FLAT
    share = min(math.log(epoch) / math.log(rising), 1.0) if rising > 1 else 1.0
    return low + (high - low) * share


def linear(first: float, last: float, epoch: int, epochs: int) -> float:
    """Return ``first + (last - first) * (epoch - 1) / (epochs - 5)``, not beyond ``last``: of all else."""
    rising = epochs - FLAT
    share = min((epoch - 1) / rising, 1.0) if rising > 0 else 1.0
    return first + (last - first) * share


def cosine(step: int, steps: int, final: float) -> float:
    """Return the learning rate of a step as a share of the first: it falls from 1 to ``final`` by half a cosine."""
    return final + (1.0 - final) * (1.0 + math.cos(math.pi * min(step / steps, 1.0))) / 2.0
