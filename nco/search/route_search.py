"""Local search for the routes of CVRPs: PyVRP's, in memory, and set up once for each instance.

Its moves are those of PyVRP 0.14: relocations and exchanges of up to three customers, and exchanged tails, each tried
for near customers only. The distances are scaled to whole numbers; feasibility never depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nco.errors import SolverUnavailable
from nco.search.guided import heat_distances
from nco.search.heat import SparseHeat
from nco.search.tsp_local_search import in_threads
from nco.solution import Routes, giant_tour, split_giant_tour

if TYPE_CHECKING:
    from pyvrp.search._search import LocalSearch

# The largest whole distance.
_LARGEST = 1_000_000
_OPERATORS = ("Relocate1", "Relocate2", "Relocate3", "Swap11", "Swap21", "Swap22", "Swap31", "Swap32", "SwapTails")


class RouteSearch:
    """Local search for many solutions of CVRP instances, with or without guidance by a heat.

    A guided search improves each local optimum in the space of heat-derived distances (see
    :func:`nco.search.guided.heat_distances`) and then once more in the real one; the best of all local optima counts.

    Parameters
    ----------
    distances : sequence of B float64 [N, N]
        Node 0 is the depot.
    demand : sequence of B int64 [N]
    capacity : sequence of B int
    heat : SparseHeat, optional
        Of the same instances; only guidance needs it.
    rounds : int
        Perturbations of a solution; 0 for plain local search.
    neighbours : int
        How many near customers are tried for each.
    threads : int
        The solutions do not depend on it.

    Raises
    ------
    SolverUnavailable
        If PyVRP is not installed.
    """

    def __init__(
        self,
        distances: Sequence[NDArray[np.float64]],
        demand: Sequence[NDArray[np.int64]],
        capacity: Sequence[int],
        heat: SparseHeat | None = None,
        rounds: int = 0,
        neighbours: int = 20,
        threads: int = 1,
    ):
        if rounds and heat is None:
            raise ValueError("a guided search needs a heat")
        self._rounds = rounds
        self._threads = threads
        problems = list(zip(demand, capacity, strict=True))
        self._real = [_Descent(apart, *problem, neighbours) for apart, problem in zip(distances, problems, strict=True)]
        self._guides: list[_Descent] = []
        if rounds and heat is not None:
            self._guides = [_Descent(heat_distances(heat, row), *each, neighbours) for row, each in enumerate(problems)]

    @property
    def calls_per_tour(self) -> int:
        """Local searches that a solution gets."""
        return 1 + self._rounds

    def __call__(self, tours: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return local optima of giant tours, int64 [B, h, L]; nothing is drawn at random."""
        found: list[list[Routes]] = [[[]] * tours.shape[1] for _ in tours]

        def improve(row: int, first: int, last: int) -> None:
            for ant in range(first, last):
                found[row][ant] = self._improve(row, split_giant_tour("cvrp", tours[row, ant]))

        in_threads(improve, len(tours), tours.shape[1], self._threads)
        longest = max(sum(map(len, routes)) + len(routes) for of_row in found for routes in of_row) + 2
        return np.stack([np.stack([giant_tour("cvrp", routes, longest) for routes in of_row]) for of_row in found])

    def _improve(self, row: int, routes: Routes) -> Routes:
        best, least = self._real[row](routes)
        routes = best
        for _ in range(self._rounds):
            perturbed, _ = self._guides[row](routes)
            routes, cost = self._real[row](perturbed)
            if cost < least:
                best, least = routes, cost
        return best


class _Descent:
    """PyVRP's data of one instance, and its local searches that are not in use."""

    def __init__(self, distances: NDArray[np.float64], demand: NDArray[np.int64], capacity: int, neighbours: int):
        try:
            import pyvrp
            import pyvrp.search
        except ImportError as error:
            raise SolverUnavailable("needs the package pyvrp: pip install 'nco[baselines]'") from error

        longest = float(distances.max())
        whole = np.floor(distances * (_LARGEST / longest if longest > 0.0 else 1.0) + 0.5).astype(np.int64)
        customers = range(1, len(demand))
        clients = [pyvrp.Client(node, delivery=[int(demand[node])]) for node in customers]
        vehicles = pyvrp.VehicleType(len(clients), capacity=[int(capacity)])
        places, no_time = [pyvrp.Location(0, 0)] * len(demand), np.zeros_like(whole)
        self._data = pyvrp.ProblemData(places, clients, [pyvrp.Depot(0)], [vehicles], [whole], [no_time])  # type: ignore[list-item]
        parameters = pyvrp.search.NeighbourhoodParams(num_neighbours=neighbours)
        self._neighbours = pyvrp.search.compute_neighbours(self._data, parameters)
        # One unit of overload costs more than any move saves: solutions stay feasible.
        self._evaluator = pyvrp.CostEvaluator([10.0 * _LARGEST], 0.0, 0.0)
        self._idle: list[LocalSearch] = []

    def __call__(self, routes: Routes) -> tuple[Routes, int]:
        """Return a local optimum and its cost in whole distances."""
        import pyvrp

        solution = pyvrp.Solution(self._data, [(route - 1).tolist() for route in routes])
        search = self._idle.pop() if self._idle else self._set_up()
        solution = search(solution, self._evaluator, True)
        self._idle.append(search)
        found = [
            np.array([stop.idx + 1 for stop in route.schedule() if stop.is_client()], dtype=np.int64)
            for route in solution.routes()
        ]
        return found, solution.distance()

    def _set_up(self) -> LocalSearch:
        # PyVRP's public class shuffles the order of the search at each call: results would depend on earlier calls.
        import pyvrp.search
        from pyvrp.search._search import LocalSearch

        search = LocalSearch(self._data, self._neighbours)
        for name in _OPERATORS:
            search.add_operator(getattr(pyvrp.search, name)(self._data))
        return search
