"""Complete solutions as plain sequences, which a search may turn round and cut anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nco.search.appending import join_routes


@dataclass(frozen=True)
class Sequences:
    """Solutions of B instances of one size.

    Attributes
    ----------
    nodes : int64 [B, n]
        All nodes of a TSP, all customers of a CVRP, in order of visit.
    begins : bool [B, n] or None
        CVRP: which of them begin a route; the first always does.
    """

    nodes: NDArray[np.int64]
    begins: NDArray[np.bool_] | None = None

    @classmethod
    def from_tours(cls, problem: str, tours: NDArray[np.int64]) -> Sequences:
        """Read giant tours, int64 [B, L]."""
        if problem == "tsp":
            return cls(tours.copy())
        rows = len(tours)
        is_customer = tours[:, 1:] > 0
        return cls(tours[:, 1:][is_customer].reshape(rows, -1), (tours[:, :-1] == 0)[is_customer].reshape(rows, -1))

    def tours(self) -> NDArray[np.int64]:
        """Return giant tours, int64 [B, L]."""
        if self.begins is None:
            return self.nodes
        return join_routes(self.nodes, self.begins, 2 * self.nodes.shape[1] + 1)

    def turned(self, rng: np.random.Generator) -> Sequences:
        """Return the same solutions, each read in a random direction and from a random node or route on."""
        rows, count = self.nodes.shape
        backward = rng.random((rows, 1)) < 0.5
        origin = rng.integers(count, size=(rows, 1))
        column = np.arange(count)
        if self.begins is None:
            return Sequences(np.take_along_axis(self.nodes, (origin + np.where(backward, -column, column)) % count, 1))
        # Backwards, a route begins at its last customer.
        nodes = np.where(backward, self.nodes[:, ::-1], self.nodes)
        begins = np.where(backward, np.roll(self.begins, -1, axis=1)[:, ::-1], self.begins)
        origin = np.take_along_axis(np.maximum.accumulate(np.where(begins, column, 0), axis=1), origin, 1)
        index = (origin + column) % count
        return Sequences(np.take_along_axis(nodes, index, 1), np.take_along_axis(begins, index, 1))
