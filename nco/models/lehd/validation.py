"""What a network in training is worth: the gap of its solutions of held-out instances to their labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nco.data.labels import LabelledSet
from nco.instance import InstanceBatch
from nco.models.held_out import HeldOutInstances, labelled_instances
from nco.search.appending import append_greedily
from nco.search.candidates import CandidateScorer
from nco.search.segments import reconstruct_segments


@dataclass(frozen=True)
class HeldOut(HeldOutInstances):
    """Held-out instances, and how to solve them.

    Attributes
    ----------
    k : int
        Candidates of a decision, as in training.
    """

    k: int

    @classmethod
    def take(cls, labels: LabelledSet, k: int) -> HeldOut:
        """Take labelled instances, to be solved as they are trained on."""
        return cls(*labelled_instances(labels), k)


def validation_gaps(
    scorer: CandidateScorer, held_out: HeldOut, iterations: int, device: torch.device
) -> tuple[float, float | None]:
    """Solve held-out instances, the same way every time.

    Returns
    -------
    float
        Mean gap of greedy decoding to the labels, in percent.
    float or None
        The same after so many iterations of random reconstruction; None for no iterations.
    """
    batch = InstanceBatch.from_instances(held_out.instances, device)
    # Mixed precision is for training: solvers run in single precision.
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        tours = append_greedily(batch, scorer, held_out.k)
        _, log = reconstruct_segments(
            held_out.instances,
            batch,
            tours,
            scorer,
            np.random.default_rng(0),
            k=held_out.k,
            iterations=iterations,
        )
    (_, greedy), (_, final) = log.points[0], log.points[-1]
    return held_out.gap(greedy), held_out.gap(final) if iterations else None
