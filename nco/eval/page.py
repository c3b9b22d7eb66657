"""One self-contained HTML page of an evaluation: nothing in it is loaded from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nco.eval.evaluator import Comparison
from nco.eval.plots import curve_figure, mean_curve, to_png, tour_figure
from nco.eval.records import Record
from nco.eval.report import comparable, conditions, instance_table, summary_table
from nco.eval.tables import format_cost, format_gap
from nco.instance import Instance
from nco.solution import Routes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A page of every tour of a large suite would be slow to open and tell nothing more.
MAX_MAPS = 8
# Above this, a map is a grey square.
MAX_MAP_NODES = 20_000

_STYLE = """
body { font-family: sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-size: 0.9em; }
caption { text-align: left; font-weight: bold; padding: 0.3em 0; }
th, td { padding: 0.25em 0.7em; border-bottom: 1px solid #ddd; text-align: left; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; }
"""


def write_page(comparison: Comparison, path: str | Path) -> None:
    """Write the tables, maps of the first instance of each problem and size, and curves of gap over time."""
    name = escape(comparison.suite.name)
    records = comparison.records
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record["problem"], record["num_nodes"]), []).append(record)
    content = [
        f"<h1>{name}</h1>",
        f"<p>{escape(conditions(comparison))}</p>",
        summary_table(records).html(),
        "<h2>Gap over time</h2>",
        *_curves(groups),
        "<h2>Tours</h2>",
        *_maps(groups, comparison.instances),
        "<h2>All results</h2>",
        instance_table(records).html(),
    ]
    head = f'<meta charset="utf-8"><title>{name}</title><style>{_STYLE}</style>'
    page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(content) + "\n</body></html>\n"
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _curves(groups: dict[tuple[str, int], list[Record]]) -> list[str]:
    """Return one picture for each problem and size whose references are known."""
    pictures = []
    for (problem, num_nodes), records in groups.items():
        shared = set(comparable(records))
        curves = {}
        for solver in dict.fromkeys(record["solver"] for record in records):
            rows = [row for row in records if row["solver"] == solver and row["instance"] in shared]
            if rows and all(row["gap"] is not None for row in rows):
                # A solver that keeps no trace has but its end.
                traces = [row["trace"] or [(row["seconds"], row["cost"])] for row in rows]
                curves[solver] = mean_curve(traces, [row["reference"] for row in rows])
        if curves:
            title = f"{problem.upper()}, {num_nodes} nodes, instances: {len(shared)}"
            pictures.append(_picture(curve_figure(curves, title), title))
    return pictures or ["<p>No reference is known.</p>"]


def _maps(groups: dict[tuple[str, int], list[Record]], instances: Sequence[Instance]) -> list[str]:
    """Return maps of the first instance of each group, one beside the other for all solvers."""
    pictures: list[str] = []
    for records in groups.values():
        instance = instances[records[0]["instance"]]
        solved = [row for row in records if row["instance"] == records[0]["instance"] and row["failure"] is None]
        if solved and instance.num_nodes <= MAX_MAP_NODES and len(pictures) < MAX_MAPS:
            titles = {f"{row['solver']}: {format_cost(row['cost'])} ({format_gap(row['gap'])})": row for row in solved}
            maps = {title: _nodes(instance, row["routes"]) for title, row in titles.items()}
            pictures.append(f"<h3>{escape(instance.name)}</h3>")
            pictures.append(_picture(tour_figure(instance, maps), instance.name))
    return pictures


def _nodes(instance: Instance, routes: Sequence[Sequence[int]]) -> Routes:
    """Return routes of file ids as routes of node indices."""
    assert instance.node_ids is not None
    order = np.argsort(instance.node_ids)
    return [order[np.searchsorted(instance.node_ids, route, sorter=order)] for route in routes]


def _picture(figure: Figure, text: str) -> str:
    data = b64encode(to_png(figure)).decode("ascii")
    return f'<p><img alt="{escape(text)}" src="data:image/png;base64,{data}"></p>'
