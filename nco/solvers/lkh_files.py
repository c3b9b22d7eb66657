"""What LKH reads and writes: whole-number instances, parameter files, and visits of depot copies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from nco.data import write_instance, write_tour
from nco.errors import UsageError
from nco.instance import Instance
from nco.solution import Routes, Solution, split_giant_tour
from nco.solvers.fleet import load_bound, packed_vehicles, reduced_demands
from nco.solvers.rounding import whole_distances

# LKH multiplies distances by 100 and keeps the products, and sums of two or three of them, in 32 bits; in a CVRP all
# must stay below 2^31 / 2 / 100, its distance between two copies of the depot.
LONGEST = 10_000_000
_LARGEST_LOAD = 2**31 - 1
# The largest span of coordinates that have to be scaled.
_SPAN = 1_000_000
# Vehicles that are added, one by one, while LKH overloads some.
_MORE_VEHICLES = 3
# Above this size LKH's default ascent and candidates take minutes; for points in the plane it has leaner ones.
_LARGE = 2_000


def whole_instance(instance: Instance, scale: float | None = None) -> tuple[Instance, float]:
    """Return an instance in a form that LKH can take, and the scale of its distances.

    Rounded metrics stay as they are. Unrounded distances, and those too long for LKH, are scaled: in the plane so that
    the largest span becomes 1,000,000, in a matrix so that the largest weight becomes 10,000,000.

    Parameters
    ----------
    instance : Instance
    scale : float, optional
        Another scale of unrounded distances in the plane.

    Raises
    ------
    UsageError
        If the scale makes a distance too long, or the demands do not fit into 32 bits.
    """
    plain = replace(instance, name="instance", node_ids=None, reference=None)
    if instance.problem == "cvrp":
        demand, capacity = reduced_demands(instance)
        if demand.sum() > _LARGEST_LOAD:
            raise UsageError(f"instance {instance.name!r}: LKH takes demands of at most {_LARGEST_LOAD} in all")
        plain = replace(plain, demand=demand, capacity=capacity)
    if instance.metric == "GEO":
        return plain, 1.0
    if instance.coords is None or instance.metric == "EXPLICIT":
        weights, used = whole_distances(instance, LONGEST)
        return replace(plain, coords=None, weights=weights.astype(np.float64)), used
    extent = np.ptp(instance.coords, axis=0)
    diagonal = math.hypot(*extent)
    if instance.metric != "EXACT" and diagonal <= LONGEST:
        return plain, 1.0
    used = scale or _SPAN / float(extent.max() or 1.0)
    if used * diagonal > LONGEST:
        raise UsageError(
            f"instance {instance.name!r}: the scale {used:g} makes distances of up to {used * diagonal:.3g}, "
            f"LKH takes at most {LONGEST}"
        )
    coords = np.rint((instance.coords - instance.coords.min(axis=0)) * used)
    return replace(plain, coords=coords, metric="EUC_2D"), used


def attempts(instance: Instance, spare_vehicles: int) -> Iterator[tuple[Instance, dict[str, object]]]:
    """Yield what to give to LKH, the first time and whenever the result before was infeasible.

    LKH overloads a vehicle where there are too few, and uses all of them unless it may leave some empty
    (MTSP_MIN_SIZE = 0), which a fleet of the load bound cannot. If one vehicle suffices, what is left is a TSP.

    Yields
    ------
    instance : Instance
    parameters : dict
        Of the fleet.
    """
    if instance.problem == "tsp":
        yield instance, {}
        return
    smallest = packed_vehicles(instance)
    if smallest == 1:
        yield replace(instance, problem="tsp", demand=None, capacity=None), {}
        return
    first = min(smallest + spare_vehicles, instance.num_customers)
    for vehicles in range(first, min(first + _MORE_VEHICLES, instance.num_customers) + 1):
        may_be_empty = {"MTSP_MIN_SIZE": 0} if vehicles > load_bound(instance) else {}
        yield instance, {"VEHICLES": vehicles, **may_be_empty}


def search_parameters(
    instance: Instance, runs: int, max_trials: int | None, seed: int, time_limit: float | None
) -> dict[str, object]:
    """Return LKH's parameters, but for those of files and fleets.

    Parameters
    ----------
    instance : Instance
        As LKH gets it.
    time_limit : float, optional
        CPU seconds of the search, all runs together. LKH's TOTAL_TIME_LIMIT would count the preparation, and leave
        nothing where that takes longer.
    """
    is_tsp = instance.problem == "tsp"
    parameters: dict[str, object] = {
        "RUNS": runs,
        "MAX_TRIALS": max_trials or (instance.num_nodes if is_tsp else 1_000),
        "SEED": 1 + seed % (2**31 - 1),  # 0 would be: from the clock
        "TRACE_LEVEL": 0,
    }
    if time_limit is not None:
        parameters["TIME_LIMIT"] = time_limit / runs
    if is_tsp and instance.num_nodes > _LARGE and instance.metric in ("EUC_2D", "CEIL_2D"):
        parameters |= {"CANDIDATE_SET_TYPE": "POPMUSIC", "INITIAL_PERIOD": 1_000}
    return parameters


def write_job(
    folder: Path, instance: Instance, parameters: dict[str, object], initial: ArrayLike | None = None
) -> dict[str, str]:
    """Write an instance and LKH's parameters into a folder; return the paths, as the engines take them.

    Parameters
    ----------
    instance : Instance
        From :func:`whole_instance`.
    initial : int [N], optional
        The tour to start from.
    """
    job = {kind: str(folder / kind) for kind in ("problem_file", "parameter_file", "tour_file")}
    write_instance(instance, job["problem_file"])
    files = {"PROBLEM_FILE": job["problem_file"], "TOUR_FILE": job["tour_file"]}
    if initial is not None:
        files["INITIAL_TOUR_FILE"] = str(folder / "initial_tour_file")
        write_tour(Solution.judged(instance, [initial]), instance, files["INITIAL_TOUR_FILE"])
    lines = [f"{key} = {value}" for key, value in (files | parameters).items()]
    if instance.problem == "cvrp":
        lines.insert(0, "SPECIAL")  # LKH-3's preset for routing problems; first, as what follows may override it
    Path(job["parameter_file"]).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return job


def visited_routes(instance: Instance, visits: list[int]) -> Routes:
    """Return the routes in LKH's cyclic sequence of visits: of the depot there are copies, numbered N and above.

    Nothing is judged here. LKHpy returns no visits at all where LKH found no feasible solution.
    """
    tour = np.array(visits, dtype=np.int64)
    if instance.problem == "tsp":
        return [tour]
    tour[tour >= instance.num_nodes] = 0
    first = int(np.argmax(tour == 0)) if len(tour) else 0
    return split_giant_tour("cvrp", np.roll(tour, -first))
