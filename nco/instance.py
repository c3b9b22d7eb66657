"""One problem in the user's units (:class:`Instance`) and same-size problems as tensors (:class:`InstanceBatch`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nco import geometry
from nco.errors import InfeasibleInstance

PROBLEMS = ("tsp", "cvrp")


@dataclass(frozen=True)
class Reference:
    """A cost to compare with. ``kind`` is "optimal", "best-known" or the name of the solver that found it."""

    cost: float
    kind: str


@dataclass(frozen=True, eq=False)
class Instance:
    """One TSP or CVRP, validated when built.

    Attributes
    ----------
    name : str
    problem : {"tsp", "cvrp"}
    coords : float64 [N, 2] or None
        In the user's own units. Node 0 is the depot of a CVRP.
    metric : str
        One of :data:`nco.geometry.METRICS`; ``EXACT`` is the unrounded Euclidean distance.
    weights : float64 [N, N] or None
        For ``EXPLICIT`` only.
    demand : int64 [N] or None
        CVRP only; the depot's is 0.
    capacity : int or None
        CVRP only.
    node_ids : int64 [N]
        The nodes' names in the file they came from; 1..N by default.
    reference : Reference or None

    Raises
    ------
    InfeasibleInstance
        If sizes disagree, a coordinate is not finite, a demand is negative or above the capacity, or there are fewer
        than two nodes.
    """

    name: str
    problem: str
    coords: NDArray[np.float64] | None = None
    metric: str = "EXACT"
    weights: NDArray[np.float64] | None = None
    demand: NDArray[np.int64] | None = None
    capacity: int | None = None
    node_ids: NDArray[np.int64] | None = None
    reference: Reference | None = None

    def __post_init__(self) -> None:
        self._set("coords", self.coords, np.float64)
        self._set("weights", self.weights, np.float64)
        self._set("demand", self.demand, np.int64)
        if self.capacity is not None:
            object.__setattr__(self, "capacity", int(self.capacity))
        if self.problem not in PROBLEMS:
            raise self._fault(f"unknown problem {self.problem!r}")
        if self.metric not in geometry.METRICS:
            raise self._fault(f"unknown metric {self.metric!r}")
        self._check_places()
        node_ids = np.arange(1, self.num_nodes + 1) if self.node_ids is None else self.node_ids
        self._set("node_ids", node_ids, np.int64)
        assert self.node_ids is not None
        if self.node_ids.shape != (self.num_nodes,) or len(np.unique(self.node_ids)) != self.num_nodes:
            raise self._fault(f"needs {self.num_nodes} distinct node ids")
        self._check_demand()

    def _set(self, field: str, value: object, dtype: type[np.generic]) -> None:
        """Store a read-only copy of an array field in its contract's dtype."""
        if value is None:
            return
        given = np.asarray(value)
        array = given.astype(dtype)
        if np.issubdtype(dtype, np.integer) and not np.array_equal(array, given):
            raise self._fault(f"{field} must hold whole numbers")
        array.setflags(write=False)
        object.__setattr__(self, field, array)

    def _fault(self, reason: str) -> InfeasibleInstance:
        return InfeasibleInstance(f"instance {self.name!r}: {reason}")

    def _check_places(self) -> None:
        if self.coords is None and self.metric != "EXPLICIT":
            raise self._fault(f"the metric {self.metric} needs coordinates")
        if (self.weights is None) != (self.metric != "EXPLICIT"):
            raise self._fault("weights belong to the metric EXPLICIT, and only to it")
        if self.coords is not None:
            if self.coords.ndim != 2 or self.coords.shape[1] != 2:
                raise self._fault(f"coordinates must have the shape [N, 2], not {list(self.coords.shape)}")
            finite = np.isfinite(self.coords).all(axis=1)
            if not finite.all():
                raise self._fault(f"node {int(np.argmin(finite))} has a coordinate that is not finite")
        if self.weights is not None:
            if self.weights.ndim != 2 or self.weights.shape[0] != self.weights.shape[1]:
                raise self._fault(f"weights must have the shape [N, N], not {list(self.weights.shape)}")
            if not np.isfinite(self.weights).all():
                raise self._fault("a weight is not finite")
            if not np.array_equal(self.weights, self.weights.T):
                raise self._fault("weights are not symmetric; asymmetric problems are not supported")
            if self.coords is not None and len(self.coords) != len(self.weights):
                raise self._fault(f"{len(self.coords)} coordinates but a {len(self.weights)}-node matrix")
        if self.num_nodes < 2:
            raise self._fault(f"needs at least 2 nodes, has {self.num_nodes}")

    def _check_demand(self) -> None:
        if self.problem == "tsp":
            if self.demand is not None or self.capacity is not None:
                raise self._fault("a TSP has no demand and no capacity")
            return
        if self.demand is None or self.capacity is None:
            raise self._fault("a CVRP needs demand and capacity")
        if self.demand.shape != (self.num_nodes,):
            raise self._fault(f"{self.num_nodes} nodes but demand of the shape {list(self.demand.shape)}")
        if self.capacity < 1:
            raise self._fault(f"capacity must be at least 1, is {self.capacity}")
        if self.demand[0] != 0:
            raise self._fault(f"the depot's demand must be 0, is {self.demand[0]}")
        for wrong, reason in (
            (self.demand < 0, "is negative"),
            (self.demand > self.capacity, f"is above the capacity {self.capacity}"),
        ):
            if wrong.any():
                node = int(np.argmax(wrong))
                raise self._fault(f"the demand {self.demand[node]} of node {self.node_ids[node]} {reason}")  # type: ignore[index]

    @property
    def num_nodes(self) -> int:
        """Number of nodes, the depot of a CVRP included."""
        places = self.coords if self.coords is not None else self.weights
        return 0 if places is None else len(places)

    @property
    def num_customers(self) -> int:
        """Nodes that must be visited besides the depot; all of them in a TSP."""
        return self.num_nodes - (self.problem == "cvrp")

    @cached_property
    def network_coords(self) -> NDArray[np.float64]:
        """Plane coordinates [N, 2] for networks and neighbour lists.

        The instance's own, or for an explicit matrix without coordinates those of classical scaling.
        """
        if self.coords is not None:
            return self.coords
        assert self.weights is not None
        return geometry.embed_distances(self.weights)

    def edge_lengths(self, tail: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return lengths of the edges tail -> head in the instance's own units and metric."""
        return geometry.edge_lengths(self.metric, self.coords, tail, head, self.weights)

    def distance_matrix(self) -> NDArray[np.float64]:
        """Return all distances [N, N]; refused above :data:`nco.geometry.DENSE_LIMIT` nodes."""
        return geometry.distance_matrix(self.metric, self.coords, self.weights)

    def with_reference(self, cost: float, kind: str) -> Instance:
        """Return the same instance with a reference cost."""
        return replace(self, reference=Reference(float(cost), kind))


@dataclass(frozen=True, eq=False)
class InstanceBatch:
    """Same-size instances as tensors, scaled into the unit square: what environments and networks see.

    Attributes
    ----------
    coords : float32 [B, N, 2]
        One isotropic scale per instance, aspect ratio kept.
    demand : int64 [B, N] or None
    capacity : int64 [B] or None
        One per row.
    """

    coords: Tensor
    demand: Tensor | None = None
    capacity: Tensor | None = None

    def __post_init__(self) -> None:
        if self.coords.ndim != 3 or self.coords.shape[-1] != 2:
            raise ValueError(f"coords must have the shape [B, N, 2], not {list(self.coords.shape)}")
        if (self.demand is None) != (self.capacity is None):
            raise ValueError("demand and capacity come together")
        if self.demand is not None and self.capacity is not None:
            rows, nodes = self.coords.shape[:2]
            if self.demand.shape != (rows, nodes) or self.capacity.shape != (rows,):
                raise ValueError(
                    f"coords {list(self.coords.shape)} do not fit demand {list(self.demand.shape)} "
                    f"and capacity {list(self.capacity.shape)}"
                )
            if self.demand.dtype != torch.int64 or self.capacity.dtype != torch.int64:
                raise ValueError("demand and capacity must be int64: feasibility is integer arithmetic")

    @classmethod
    def from_instances(cls, instances: Sequence[Instance], device: torch.device | str = "cpu") -> InstanceBatch:
        """Stack instances of one problem and size.

        Raises
        ------
        ValueError
            If there are none, or problems or sizes differ.
        """
        if not instances:
            raise ValueError("a batch needs at least one instance")
        kinds = {(instance.problem, instance.num_nodes) for instance in instances}
        if len(kinds) > 1:
            raise ValueError(f"a batch holds one problem and size, not {sorted(kinds)}")
        scaled = []
        for instance in instances:
            offset, scale = geometry.isotropic_scale(instance.network_coords)
            scaled.append((instance.network_coords - offset) / scale)
        coords = torch.from_numpy(np.stack(scaled)).to(device=device, dtype=torch.float32)
        if instances[0].problem == "tsp":
            return cls(coords)
        demand = torch.from_numpy(np.stack([instance.demand for instance in instances])).to(device)  # type: ignore[misc]
        capacity = torch.tensor([instance.capacity for instance in instances], dtype=torch.int64, device=device)
        return cls(coords, demand, capacity)

    @property
    def problem(self) -> str:
        """Either "tsp" or "cvrp"."""
        return "tsp" if self.demand is None else "cvrp"

    @property
    def num_nodes(self) -> int:
        """N, the depot of a CVRP included."""
        return self.coords.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.coords.device

    def __len__(self) -> int:
        return self.coords.shape[0]

    def _map(self, function) -> InstanceBatch:  # type: ignore[no-untyped-def]
        tensors = (self.coords, self.demand, self.capacity)
        return InstanceBatch(*(None if tensor is None else function(tensor) for tensor in tensors))  # type: ignore[arg-type]

    def to(self, device: torch.device | str) -> InstanceBatch:
        """Return the batch on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def __getitem__(self, rows: slice | Sequence[int] | Tensor) -> InstanceBatch:
        """Return some rows, always as a batch."""
        if isinstance(rows, int):
            rows = [rows]
        return self._map(lambda tensor: tensor[rows])

    def repeat_interleave(self, times: int) -> InstanceBatch:
        """Return the batch with every row repeated, [B * times, ...]."""
        return self._map(lambda tensor: tensor.repeat_interleave(times, dim=0))

    def symmetries(self) -> InstanceBatch:
        """Return the eight images of every instance, [8 * B, ...]: image s of row b is row s * B + b."""
        rows, nodes = self.coords.shape[:2]
        coords = geometry.square_symmetries(self.coords).reshape(8 * rows, nodes, 2)
        if self.demand is None or self.capacity is None:
            return InstanceBatch(coords)
        return InstanceBatch(coords, self.demand.repeat(8, 1), self.capacity.repeat(8))
