"""Held-out instances that a network in training solves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nco.data.labels import LabelledSet
from nco.instance import Instance
from nco.solution import routes_cost, split_giant_tour


@dataclass(frozen=True)
class HeldOutInstances:
    """Instances of one problem and size with the costs of their labels.

    Attributes
    ----------
    instances : list of Instance
    costs : float64 [B]
    """

    instances: list[Instance]
    costs: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.instances)

    def gap(self, costs: NDArray[np.float64]) -> float:
        """Return the mean gap of solutions of these costs [B] to the labels, in percent."""
        return 100 * float((costs / self.costs - 1).mean())


def labelled_instances(labels: LabelledSet) -> tuple[list[Instance], NDArray[np.float64]]:
    """Return the instances of a labelled set, and the costs of their labels, float64 [B]."""
    instances, costs = [], []
    for row, coords in enumerate(labels.coords):
        demand = None if labels.demand is None else labels.demand[row]
        capacity = None if labels.capacity is None else int(labels.capacity[row])
        instance = Instance(
            f"held-out-{row}", labels.problem, coords.astype(np.float64), demand=demand, capacity=capacity
        )
        instances.append(instance)
        costs.append(routes_cost(instance, split_giant_tour(labels.problem, labels.tours[row])))
    return instances, np.array(costs)
