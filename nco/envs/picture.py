"""A small picture of one tour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nco.instance import Instance, InstanceBatch
from nco.solution import split_giant_tour

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_tour(
    problem: InstanceBatch | Instance,
    tour: Tensor | NDArray[np.int64],
    row: int = 0,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw a giant tour: one colour a route, a square for the depot.

    Parameters
    ----------
    problem : InstanceBatch or Instance
    tour : int64 [L]
        Partial tours are drawn with the nodes that they leave out.
    row : int
        The row of a batch that the tour belongs to.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default, which the caller may show or save as ``ax.figure``.
    title : str

    Returns
    -------
    matplotlib Axes
    """
    from matplotlib.figure import Figure

    if ax is None:
        ax = Figure(figsize=(4, 4), layout="constrained").add_subplot()
    if isinstance(problem, InstanceBatch):
        coords = problem.coords[row].detach().cpu().numpy()
    else:
        coords = problem.network_coords
    visits = np.asarray(tour.cpu() if isinstance(tour, Tensor) else tour, dtype=np.int64)
    depot = [0] if problem.problem == "cvrp" else []
    for route in split_giant_tour(problem.problem, visits[visits >= 0]):
        path = [*depot, *route]
        ax.plot(*coords[[*path, path[0]]].T, linewidth=1)
    dot = min(6.0, max(1.0, 60 / len(coords) ** 0.5))  # points would cover the lines of large tours
    ax.plot(*coords.T, linestyle="none", marker=".", markersize=dot, color="black")
    ax.plot(*coords[depot].T, linestyle="none", marker="s", color="black")
    ax.set(title=title, xticks=[], yticks=[], aspect="equal")
    return ax
