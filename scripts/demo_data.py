"""Draw the instances of ``data/demo`` and compute their references with LKH and HGS; the same files come out again."""

import sys
from dataclasses import replace

import numpy as np

from nco import shelf
from nco.data import Entry, write_folder
from nco.data.generators import make_generator
from nco.instance import Instance
from nco.progress import track
from nco.solvers import make_solver

SEED = 20251

# Name, generator, problem, size, options.
DRAWN = (
    ("demo-tsp100", "uniform", "tsp", 100, {}),
    ("demo-tsp500", "uniform", "tsp", 500, {}),
    ("demo-cvrp100", "uniform", "cvrp", 100, {}),
    ("demo-cvrp200", "x", "cvrp", 200, {"depot": "R", "customers": "RC", "demand": "1-10", "route_length": 12.0}),
)
SOLVERS = {"tsp": ("lkh", {"runs": 5}), "cvrp": ("hgs", {"iterations": 20_000})}


def draw(number: int) -> Instance:
    """Return an instance on the grid 0..1000 with distances rounded to the nearest integer."""
    name, generator, problem, size, options = DRAWN[number]
    rng = np.random.default_rng([SEED, number])
    instance = make_generator(generator, problem, size, **options)(rng, 1)[0]
    coords = instance.coords if instance.metric == "EUC_2D" else np.round(1000 * instance.coords)
    return replace(instance, name=name, coords=coords, metric="EUC_2D")


def main() -> int:
    entries = []
    with track(len(DRAWN), "solve") as progress:
        for number in range(len(DRAWN)):
            instance = draw(number)
            solver, options = SOLVERS[instance.problem]
            [solution] = make_solver(solver, options).solve([instance], seed=1)
            stated = ", ".join(f"{value:,} {option}" for option, value in options.items())
            entries.append(Entry(instance.with_reference(solution.cost, f"{solver}, {stated}"), solution.routes))
            progress(number + 1, len(DRAWN))
    write_folder(entries, shelf("data") / "demo")
    return 0


if __name__ == "__main__":
    sys.exit(main())
