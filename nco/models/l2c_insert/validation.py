"""What a network in training is worth: the gap of its solutions of held-out instances to their labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nco.data.labels import LabelledSet
from nco.instance import Instance, InstanceBatch
from nco.search.construction import construct_greedily
from nco.search.rebuild import Scorer
from nco.search.reconstruction import reconstruct
from nco.search.regions import RegionRule
from nco.search.window import WindowRule
from nco.solution import routes_cost, split_giant_tour


@dataclass(frozen=True)
class HeldOut:
    """Instances of one problem and size with the costs of their labels, and how to solve them.

    Attributes
    ----------
    instances : list of Instance
    costs : float64 [B]
    construction, reconstruction : WindowRule
        What the network sees in greedy insertion, and in local reconstruction.
    regions : RegionRule
        One hole per instance and iteration, as in training.
    """

    instances: list[Instance]
    costs: NDArray[np.float64]
    construction: WindowRule
    reconstruction: WindowRule
    regions: RegionRule

    @classmethod
    def take(cls, labels: LabelledSet, window: WindowRule, chain_order: str, holes: tuple[int, int]) -> HeldOut:
        """Take labelled instances, to be solved as they are trained on."""
        instances, costs = [], []
        for row, coords in enumerate(labels.coords):
            demand = None if labels.demand is None else labels.demand[row]
            capacity = None if labels.capacity is None else int(labels.capacity[row])
            instance = Instance(
                f"held-out-{row}", labels.problem, coords.astype(np.float64), demand=demand, capacity=capacity
            )
            instances.append(instance)
            costs.append(routes_cost(instance, split_giant_tour(labels.problem, labels.tours[row])))
        construction = WindowRule(window.positions, window.unvisited, chain_order)
        regions = RegionRule(size=labels.coords.shape[1], holes=holes)
        return cls(instances, np.array(costs), construction, window, regions)

    def __len__(self) -> int:
        return len(self.instances)

    def gap(self, costs: NDArray[np.float64]) -> float:
        """Return the mean gap of solutions of these costs [B] to the labels, in percent."""
        return 100 * float((costs / self.costs - 1).mean())


def validation_gaps(
    scorer: Scorer, held_out: HeldOut, iterations: int, device: torch.device
) -> tuple[float, float | None]:
    """Solve held-out instances, the same way every time.

    Returns
    -------
    float
        Mean gap of greedy insertion to the labels, in percent.
    float or None
        The same after so many iterations of local reconstruction; None for no iterations.
    """
    batch = InstanceBatch.from_instances(held_out.instances, device)
    # Mixed precision is for training: solvers run in single precision.
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        tours = construct_greedily(batch, scorer, held_out.construction)
        _, log = reconstruct(
            held_out.instances,
            batch,
            tours,
            scorer,
            np.random.default_rng(0),
            window=held_out.reconstruction,
            regions=held_out.regions,
            iterations=iterations,
        )
    (_, greedy), (_, final) = log.points[0], log.points[-1]
    return held_out.gap(greedy), held_out.gap(final) if iterations else None
