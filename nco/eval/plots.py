"""Pictures of tours and of gaps over time, drawn on the Agg canvas: pyplot and its global state are not touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nco.instance import Instance
from nco.solution import Routes, giant_tour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Points (seconds, cost).
Trace = Sequence[Sequence[float]]
# Seconds and gaps, float64 [P] each.
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]

_COLUMNS = 4
_INCHES = 3.2
_CURVE_POINTS = 200
_SOONEST = 1e-3


def tour_figure(instance: Instance, solutions: Mapping[str, Routes]) -> Figure:
    """Draw solutions of one instance side by side.

    Parameters
    ----------
    instance : Instance
    solutions : mapping of str to routes
        By their titles.
    """
    from matplotlib.figure import Figure

    from nco.envs.picture import draw_tour

    columns = min(_COLUMNS, len(solutions))
    rows = -(-len(solutions) // columns)
    figure = Figure(figsize=(_INCHES * columns, _INCHES * rows), layout="constrained")
    for number, (title, routes) in enumerate(solutions.items(), 1):
        axes = figure.add_subplot(rows, columns, number)
        draw_tour(instance, giant_tour(instance.problem, routes), ax=axes)
        axes.set_title(title, fontsize="small")
    return figure


def curve_figure(curves: Mapping[str, Curve]) -> Figure:
    """Draw mean gaps over time, one step curve a solver; see :func:`mean_curve`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.add_subplot()
    for label, (seconds, gaps) in curves.items():
        # A logarithmic axis has no place for what is there at once.
        axes.step(
            np.maximum(seconds, _SOONEST),
            gaps,
            where="post",
            marker="o" if len(seconds) < 10 else None,
            markersize=3,
            label=label,
        )
    axes.set(xlabel="seconds for each instance", ylabel="mean gap (%)", xscale="log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def mean_curve(traces: Sequence[Trace], references: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean gap of several instances over time.

    Parameters
    ----------
    traces : sequence of traces
        A trace has at least one point (seconds, cost); its best cost so far holds until the next better point.
    references : sequence of float
        One positive cost a trace.

    Returns
    -------
    seconds, gaps : float64 [P]
        Percentages. The curve starts when the last of the instances has its first solution.
    """
    steps = []
    for trace, reference in zip(traces, references, strict=True):
        points = np.asarray(trace, dtype=np.float64)
        steps.append((points[:, 0], 100.0 * (np.minimum.accumulate(points[:, 1]) / reference - 1.0)))
    start = max(seconds[0] for seconds, _ in steps)
    times = np.unique(np.concatenate([seconds for seconds, _ in steps]))
    times = times[times >= start]
    if len(times) > _CURVE_POINTS:
        chosen = np.geomspace(max(times[0], _SOONEST), times[-1], _CURVE_POINTS)
        times = np.concatenate([times[:1], chosen[chosen > times[0]]])
    gaps = [values[np.searchsorted(seconds, times, side="right") - 1] for seconds, values in steps]
    return times, np.mean(gaps, axis=0)


def to_png(figure: Figure) -> bytes:
    """Return a figure as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    content = BytesIO()
    FigureCanvasAgg(figure).print_png(content)
    return content.getvalue()
