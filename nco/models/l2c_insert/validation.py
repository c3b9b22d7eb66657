"""What a network in training is worth: the gap of its solutions of held-out instances to their labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nco.data.labels import LabelledSet
from nco.instance import InstanceBatch
from nco.models.held_out import HeldOutInstances, labelled_instances
from nco.search.construction import construct_greedily
from nco.search.rebuild import Scorer
from nco.search.reconstruction import reconstruct
from nco.search.regions import RegionRule
from nco.search.window import WindowRule


@dataclass(frozen=True)
class HeldOut(HeldOutInstances):
    """Held-out instances, and how to solve them.

    Attributes
    ----------
    construction, reconstruction : WindowRule
        What the network sees in greedy insertion, and in local reconstruction.
    regions : RegionRule
        One hole per instance and iteration, as in training.
    """

    construction: WindowRule
    reconstruction: WindowRule
    regions: RegionRule

    @classmethod
    def take(cls, labels: LabelledSet, window: WindowRule, chain_order: str, holes: tuple[int, int]) -> HeldOut:
        """Take labelled instances, to be solved as they are trained on."""
        construction = WindowRule(window.positions, window.unvisited, chain_order)
        regions = RegionRule(size=labels.coords.shape[1], holes=holes)
        return cls(*labelled_instances(labels), construction, window, regions)


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
