"""Lengths of edges of many instances at once, in each instance's own metric and units: what a search accepts by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nco import geometry
from nco.instance import Instance


class InstanceLengths:
    """Edge lengths of same-size instances.

    Parameters
    ----------
    instances : sequence of Instance
    """

    def __init__(self, instances: Sequence[Instance]):
        self.instances = list(instances)
        self.num_nodes = self.instances[0].num_nodes
        metrics = {instance.metric for instance in instances}
        self.metric = metrics.pop() if len(metrics) == 1 else None
        self.coords: NDArray[np.float64] | None = None
        if self.metric not in (None, "EXPLICIT"):
            self.coords = np.concatenate([instance.coords for instance in instances])  # type: ignore[misc]

    def __call__(self, row: NDArray[np.int64], tail: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the lengths of E edges.

        Parameters
        ----------
        row : int64 [E]
            The instance of each edge.
        tail, head : int64 [E]
            Its nodes.

        Returns
        -------
        float64 [E]
        """
        if self.coords is not None:
            assert self.metric is not None
            offset = row * self.num_nodes
            return geometry.edge_lengths(self.metric, self.coords, offset + tail, offset + head)
        found = np.zeros(len(row))
        for number in np.unique(row):
            of_row = row == number
            found[of_row] = self.instances[number].edge_lengths(tail[of_row], head[of_row])
        return found

    def of_tours(self, tours: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the lengths of giant tours, int64 [B, L], one for each instance, float64 [B]."""
        head = np.roll(tours, -1, axis=1)
        real = np.ones_like(tours, dtype=bool)
        if self.instances[0].problem == "cvrp":
            # The zeros behind the last route are no edges.
            real = (tours != 0) | (head != 0)
        row = np.nonzero(real)[0]
        return np.bincount(row, self(row, tours[real], head[real]), len(tours)).astype(np.float64)
