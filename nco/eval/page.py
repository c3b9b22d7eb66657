"""One self-contained HTML page of an evaluation: nothing in it is loaded from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nco.eval.evaluator import Comparison
from nco.eval.plots import Curve, curve_figure, mean_curve, to_png, tour_figure
from nco.eval.records import Record
from nco.eval.report import comparable, conditions, result_tables, summary_table
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
    """Write the tables and the pictures of :func:`figures`."""
    name = escape(comparison.suite.name)
    records = comparison.records
    content = [
        f"<h1>{name}</h1>",
        f"<p>{escape(conditions(comparison))}</p>",
        summary_table(records).html(),
        *(_picture(title, figure) for title, figure in figures(comparison).items()),
        *(table.html() for table in result_tables(records)),
    ]
    head = f'<meta charset="utf-8"><title>{name}</title><style>{_STYLE}</style>'
    page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(content) + "\n</body></html>\n"
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def figures(comparison: Comparison) -> dict[str, Figure]:
    """Return pictures by their titles: for each problem and size gap over time, and maps of its first instance."""
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in comparison.records:
        groups.setdefault((record["problem"], record["num_nodes"]), []).append(record)
    pictures: dict[str, Figure] = {}
    for (problem, num_nodes), records in groups.items():
        curves = _curves(records)
        if curves:
            pictures[f"Gap over time, {problem.upper()} with {num_nodes} nodes"] = curve_figure(curves)
    for records in list(groups.values())[:MAX_MAPS]:
        instance = comparison.instances[records[0]["instance"]]
        maps = _maps(records, instance)
        if maps and instance.num_nodes <= MAX_MAP_NODES:
            pictures[f"Tours of {instance.name}"] = tour_figure(instance, maps)
    return pictures


def _curves(records: Sequence[Record]) -> dict[str, Curve]:
    """Return the mean curve of each solver over the instances that can be compared, if their references are known."""
    shared = set(comparable(records))
    curves = {}
    for solver in dict.fromkeys(record["solver"] for record in records):
        rows = [row for row in records if row["solver"] == solver and row["instance"] in shared]
        if rows and all(row["gap"] is not None for row in rows):
            # A solver that keeps no trace has but its end.
            traces = [row["trace"] or [(row["seconds"], row["cost"])] for row in rows]
            curves[solver] = mean_curve(traces, [row["reference"] for row in rows])
    return curves


def _maps(records: Sequence[Record], instance: Instance) -> dict[str, Routes]:
    """Return the solutions of the first instance by what is written above them."""
    rows = [row for row in records if row["instance"] == records[0]["instance"] and row["failure"] is None]
    return {
        f"{row['solver']}: {format_cost(row['cost'])} ({format_gap(row['gap'])})": _nodes(instance, row["routes"])
        for row in rows
    }


def _nodes(instance: Instance, routes: Sequence[Sequence[int]]) -> Routes:
    """Return routes of file ids as routes of node indices."""
    assert instance.node_ids is not None
    order = np.argsort(instance.node_ids)
    return [order[np.searchsorted(instance.node_ids, route, sorter=order)] for route in routes]


def _picture(title: str, figure: Figure) -> str:
    data = b64encode(to_png(figure)).decode("ascii")
    return f'<h2>{escape(title)}</h2><p><img alt="{escape(title)}" src="data:image/png;base64,{data}"></p>'
