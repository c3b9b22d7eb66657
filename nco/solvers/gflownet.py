"""GFACS and AGFN as solvers: trajectories along a learned heat, with ants and local search by option.

The other heats and starts are controls: they show what the learned heat adds to the search around it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from nco.errors import UsageError
from nco.geometry import DENSE_LIMIT
from nco.instance import Instance, InstanceBatch
from nco.models.heat_network import HeatNetwork, heat_of
from nco.models.heat_pretrained import load_heat
from nco.models.sparse_graphs import nearest_count
from nco.search.heat import SparseHeat, concatenated, distance_heat
from nco.solution import Solution, routes_cost, split_giant_tour
from nco.solvers.base import Progress, check_positive, check_whole, register, require_problem
from nco.solvers.batched import choose_device
from nco.solvers.fleet import tiny_routes

if TYPE_CHECKING:
    from nco.search.aco import Improve, RoundLog, Starts
    from nco.search.sampling import Decoder

HEATS = ("network", "untrained", "distance")
STARTS = ("ants", "random-insertion")
DECODERS = ("sample", "greedy", "epsilon", "agfn", "depot-guided")
# Graphs whose neighbours are a share of the nodes, as published, would be quadratic: there are at most so many.
MOST_NEIGHBOURS = 200
# Edges that go through a network at once.
EDGES_AT_ONCE = 500_000


class HeatSolver:
    """Rounds of trajectories along a heat; the best of all is the solution. A subclass says what makes the heat.

    Parameters
    ----------
    weights : str, optional
        Name of released weights, a folder with weights, or a training checkpoint; by default the released ones for
        the problem.
    ants : int
        Trajectories of each instance in a round.
    iterations : int
        Rounds. A time limit ends them early, but for the first.
    decoder : str
        "sample", "greedy", "epsilon" (draw with a probability), "agfn" (epsilon 0.05), "depot-guided" (draw at the
        depot of a CVRP, else greedy) or "auto".
    epsilon : float
        Probability of drawing a step by the decoder "epsilon".
    pheromone : str
        "as", "elitist", "max-min" or "none", see :class:`nco.search.aco.ColonyRule`; "auto" is "as" for a TSP and
        "none" for a CVRP, where "as" makes routes shorter and shorter.
    decay, alpha, beta : float
        Share of the pheromone that stays from round to round, and the exponents of pheromone and heat.
    local_search : bool
        Improve all trajectories: a TSP's by 2-opt, Or-opt and 3-opt, a CVRP's by relocations,
        exchanges, 2-opt, 2-opt* and SWAP*.
    perturbations : int, optional
        Perturbations of each local optimum by the heat, which only come with local search; by default 5, and none above
        5,000 nodes.
    neighbours : int, optional
        Neighbours of each node in the sparse graph; by default as many as the network was
        trained with (most often a fifth of the nodes), and at most 200.
    heat : {"network", "untrained", "distance"}
        What makes the heat: the network, one with random weights, or the inverse of the length.
    starts : {"ants", "random-insertion"}
        What makes the tours of a round: ants, or random insertion in their place, which makes a control with the same
        number of local searches.
    batch_size : int
        Instances of one size that are solved together.
    device : str
        Of the network; "auto" takes a GPU where there is one.
    threads : int, optional
        Of trajectories and local search; by default what PyTorch is set to. The solutions do not depend on it.
    """

    name = "heat"
    problems: tuple[str, ...] = ("tsp", "cvrp")
    batched = True
    # What "auto" stands for, and what an untrained network is built from, by problem.
    decoders: ClassVar[dict[str, str]] = {"tsp": "agfn", "cvrp": "depot-guided"}
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}
    # Of the graphs of an untrained network, and without one: one neighbour for so many nodes.
    sparsity = 5

    def __init__(
        self,
        weights: str | None = None,
        ants: int = 100,
        iterations: int = 1,
        decoder: str = "auto",
        epsilon: float = 0.9,
        pheromone: str = "auto",
        decay: float = 0.9,
        alpha: float = 1.0,
        beta: float = 1.0,
        local_search: bool = False,
        perturbations: int | None = None,
        neighbours: int | None = None,
        heat: str = "network",
        starts: str = "ants",
        batch_size: int = 16,
        device: str = "auto",
        threads: int | None = None,
    ):
        from nco.search.aco import PHEROMONES, ColonyRule

        check_whole(self.name, 1, ants=ants, iterations=iterations, neighbours=neighbours)
        check_whole(self.name, 1, batch_size=batch_size, threads=threads)
        check_whole(self.name, 0, perturbations=perturbations)
        for option, value, known in (
            ("decoder", decoder, ("auto", *DECODERS)),
            ("pheromone", pheromone, ("auto", *PHEROMONES)),
            ("heat", heat, HEATS),
            ("starts", starts, STARTS),
        ):
            if value not in known:
                raise UsageError(f"solver {self.name!r}: unknown {option} {value!r}; known are {', '.join(known)}")
        check_positive(self.name, epsilon=epsilon, decay=decay, beta=beta)
        if epsilon > 1.0 or decay > 1.0:
            raise UsageError(f"solver {self.name!r}: epsilon and decay are at most 1, not {epsilon} and {decay}")
        self.weights = weights
        self.ants = ants
        self.iterations = iterations
        self.decoder = decoder
        self.epsilon = epsilon
        self.rules = {
            problem: ColonyRule(usual if pheromone == "auto" else pheromone, decay, alpha, beta)
            for problem, usual in (("tsp", "as"), ("cvrp", "none"))
        }
        self.local_search = local_search
        self.perturbations = perturbations
        self.neighbours = neighbours
        self.heat = heat
        self.starts = starts
        self.batch_size = batch_size
        self.device = choose_device(device)
        self.threads = threads
        self._loaded: dict[str, tuple[HeatNetwork, int]] = {}

    def solve(
        self,
        instances: Sequence[Instance],
        *,
        seed: int,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> list[Solution]:
        """Solve instances, those of one problem and size together; see :class:`nco.solvers.base.Solver`."""
        require_problem(self, instances)
        by_size: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, instance in enumerate(instances):
            by_size[instance.problem, instance.num_nodes].append(number)
        solutions: dict[int, Solution] = {}
        for numbers in by_size.values():
            for begin in range(0, len(numbers), self.batch_size):
                chunk = numbers[begin : begin + self.batch_size]
                report = _rounds_as_instances(progress, len(solutions), len(chunk), len(instances), self.iterations)
                solved = self._solve_batch(
                    [instances[number] for number in chunk], (seed, chunk[0]), time_limit, report
                )
                solutions.update(zip(chunk, solved, strict=True))
                if progress is not None:
                    progress(len(solutions), len(instances))
        return [solutions[number] for number in range(len(instances))]

    def _solve_batch(
        self,
        instances: list[Instance],
        seed: tuple[int, int],
        time_limit: float | None,
        report: Callable[[int], None] | None,
    ) -> list[Solution]:
        from nco.search.aco import run_rounds

        began = time.perf_counter()
        if instances[0].num_nodes <= 3:
            return [self._tiny(instance, seed[0]) for instance in instances]
        problem, size = instances[0].problem, instances[0].num_nodes
        perturbations = self._perturbations(size)
        heat = None
        if self.starts == "ants" or perturbations:
            batch = InstanceBatch.from_instances(instances, self.device)
            heat = self._heat(batch, seed[0])
        starts = self._starts(instances, heat)
        improve = self._improve(instances, heat, perturbations) if self.local_search else None
        spent = time.perf_counter() - began
        tours, log = run_rounds(
            instances,
            starts,
            self.iterations,
            np.random.default_rng(seed),
            improve=improve,
            time_limit=None if time_limit is None else time_limit * len(instances) - spent,
            progress=report,
        )
        seconds = (time.perf_counter() - began) / len(instances)
        info: dict[str, object] = {
            "iterations": log.rounds,
            "ants": self.ants,
            "heat": None if heat is None else self.heat,
            "starts": self.starts,
            "decoder": self._decoder_name(problem) if self.starts == "ants" else None,
            "local_searches": log.rounds * self.ants * (1 + perturbations) if self.local_search else 0,
            "device": str(self.device),
            "threads": self._num_threads,
            "batch": len(instances),
        }
        return [
            Solution.judged(
                instance,
                split_giant_tour(problem, tours[row]),
                seconds=seconds,
                solver=self.name,
                seed=seed[0],
                trace=_trace(log, row, spent, len(instances)),
                info=info,
            )
            for row, instance in enumerate(instances)
        ]

    def _tiny(self, instance: Instance, seed: int) -> Solution:
        """Solve an instance of two or three nodes, which has no graph to learn from."""
        routes = tiny_routes(instance)
        assert routes is not None
        trace = [(0.0, routes_cost(instance, routes))]
        return Solution.judged(instance, routes, solver=self.name, seed=seed, trace=trace, info={"iterations": 0})

    @property
    def _num_threads(self) -> int:
        return self.threads or torch.get_num_threads()

    def _perturbations(self, size: int) -> int:
        """Return the perturbations of each local optimum."""
        if not self.local_search:
            return 0
        if self.perturbations and size > DENSE_LIMIT:
            raise UsageError(
                f"solver {self.name!r}: {size} nodes are too many for perturbations by the heat; "
                f"the limit is {DENSE_LIMIT}"
            )
        if self.perturbations is not None:
            return self.perturbations
        return 0 if size > DENSE_LIMIT else 5

    def _heat(self, batch: InstanceBatch, seed: int) -> SparseHeat:
        """Return the heat of instances, on the solver's device."""
        if self.heat == "distance":
            return distance_heat(batch, self.neighbours or self._neighbours(batch.num_nodes, self.sparsity))
        network, sparsity = self._network(batch.problem, seed)
        k = self.neighbours or self._neighbours(batch.num_nodes, sparsity)
        step = max(1, EDGES_AT_ONCE // (batch.num_nodes * k))
        with torch.inference_mode():
            parts = [heat_of(network, batch[first : first + step], k) for first in range(0, len(batch), step)]
        return concatenated(parts)

    @staticmethod
    def _neighbours(size: int, sparsity: int) -> int:
        return min(nearest_count(size, sparsity), MOST_NEIGHBOURS)

    def _network(self, problem: str, seed: int) -> tuple[HeatNetwork, int]:
        """Return the network of a problem, loaded once, and the sparsity of its graphs."""
        if self.heat == "untrained":
            # Random weights come from a generator that is global; what it was is restored.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network = HeatNetwork(problem, **self.sizes[problem])
            return network.to(self.device).eval(), self.sparsity
        if problem not in self._loaded:
            trained = load_heat(self.weights or f"hbg-{self.name}-{problem}", problem, self.name)
            self._loaded[problem] = trained.network.to(self.device), trained.sparsity
        return self._loaded[problem]

    def _decoder_name(self, problem: str) -> str:
        return self.decoders[problem] if self.decoder == "auto" else self.decoder

    def _decoder(self, problem: str) -> Decoder:
        from nco.search import sampling

        return {
            "sample": sampling.SAMPLE,
            "greedy": sampling.GREEDY,
            "epsilon": sampling.epsilon(self.epsilon),
            "agfn": sampling.AGFN_COIN,
            "depot-guided": sampling.DEPOT_GUIDED,
        }[self._decoder_name(problem)]

    def _starts(self, instances: list[Instance], heat: SparseHeat | None) -> Starts:
        from nco.search.aco import Colony, RandomInsertions

        if self.starts == "random-insertion":
            return RandomInsertions(instances, self.ants, self._num_threads)
        assert heat is not None
        batch = InstanceBatch.from_instances(instances)
        decoder = self._decoder(batch.problem)
        return Colony(batch, heat, self.ants, decoder, self.rules[batch.problem], self._num_threads)

    def _improve(self, instances: list[Instance], heat: SparseHeat | None, perturbations: int) -> Improve:
        """Set up the local search of the instances."""
        from nco.search.guided import Guidance, TourSearch
        from nco.search.route_search import RouteSearch
        from nco.search.space import space_of

        spaces = [space_of(instance) for instance in instances]
        guidance, threads = Guidance(perturbations), self._num_threads
        if instances[0].problem == "tsp":
            return TourSearch(spaces, heat, guidance, threads=threads)
        demand = [instance.demand for instance in instances]
        capacity = [instance.capacity for instance in instances]
        return RouteSearch(spaces, demand, capacity, heat, guidance, threads=threads)  # type: ignore[arg-type]


@register("gfacs")
class GFACS(HeatSolver):
    """GFACS, and HBG-GFACS by its weights: ants on a learned heat, with local search.

    Kim et al., AISTATS 2025; the hybrid balance is that of HBG (NeurIPS 2025).

    Parameters
    ----------
    iterations : int
        Rounds.
    local_search : bool
        Improve all trajectories.
    **options
        See :class:`HeatSolver`. The decoder "auto" is "epsilon" for a TSP and "depot-guided" for a CVRP.
    """

    decoders: ClassVar[dict[str, str]] = {"tsp": "epsilon", "cvrp": "depot-guided"}
    sizes: ClassVar[dict[str, dict[str, Any]]] = {problem: {"depth": 12, "width": 32} for problem in ("tsp", "cvrp")}

    def __init__(self, iterations: int = 10, local_search: bool = True, **options: object):
        super().__init__(iterations=iterations, local_search=local_search, **options)  # type: ignore[arg-type]


@register("agfn")
class AGFN(HeatSolver):
    """AGFN, and HBG-AGFN by its weights: the best of many trajectories along a learned heat.

    Zhang et al., AAAI 2025; the hybrid balance is that of HBG (NeurIPS 2025). The decoder "auto" is "agfn" for a TSP
    and "depot-guided" for a CVRP.
    """

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tsp": {"depth": 12, "width": 32, "kinds": 1},
        "cvrp": {"depth": 16, "width": 64, "kinds": 1},
    }


def _rounds_as_instances(
    progress: Progress | None, done: int, now: int, total: int, rounds: int
) -> Callable[[int], None] | None:
    """Turn rounds of a batch of instances into instances done."""
    if progress is None:
        return None
    return lambda round_: progress(done + now * round_ // rounds, total)


def _trace(log: RoundLog, row: int, spent: float, batch: int) -> list[tuple[float, float]]:
    """Return (seconds, cost) points of one instance, each in its share of the batch's time."""
    points: list[tuple[float, float]] = []
    for seconds, costs in log.points:
        if not points or costs[row] < points[-1][1]:
            points.append(((spent + seconds) / batch, float(costs[row])))
    return points
