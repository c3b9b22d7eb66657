"""One table, shown on a terminal, as aligned lines, as Markdown or as HTML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TextIO


@dataclass
class Table:
    """Cells of text under headings.

    Attributes
    ----------
    columns : sequence of str
    rows : list of sequences of str
        As many cells each as there are columns.
    title : str
    left : int
        So many columns from the left are names and stand to the left; the others are numbers and stand to the right.
    """

    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    title: str = ""
    left: int = 1

    def show(self, stream: TextIO | None = None) -> None:
        """Print the table: set by rich on a terminal, as aligned lines elsewhere.

        Parameters
        ----------
        stream : text file, optional
            ``sys.stdout`` by default.
        """
        stream = sys.stdout if stream is None else stream
        if not stream.isatty():
            print(self.plain(), file=stream)
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=self.title or None, title_justify="left", box=SIMPLE_HEAD)
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number < self.left else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*map(Text, row))  # a name such as "[red]" is no markup
        Console(file=stream).print(table)

    def plain(self) -> str:
        """Return aligned lines without a frame."""
        grid = [list(self.columns), *self.rows]
        widths = [max(len(row[number]) for row in grid) for number in range(len(self.columns))]
        lines = ["  ".join(self._pad(cell, number, widths[number]) for number, cell in enumerate(row)) for row in grid]
        return "\n".join([self.title] * bool(self.title) + [line.rstrip() for line in lines])

    def markdown(self) -> str:
        """Return a Markdown table, under its title as a heading."""
        rules = ["---" if number < self.left else "---:" for number in range(len(self.columns))]
        grid = [self.columns, rules, *([cell.replace("|", "\\|") for cell in row] for row in self.rows)]
        lines = ["| " + " | ".join(row) + " |" for row in grid]
        return "\n".join([f"### {self.title}", ""] * bool(self.title) + lines)

    def html(self) -> str:
        """Return an HTML table."""

        def cells(tag: str, row: Sequence[str]) -> str:
            kinds = ["" if number < self.left else ' class="number"' for number in range(len(row))]
            return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        head = f"<thead><tr>{cells('th', self.columns)}</tr></thead>"
        body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in self.rows)
        return f"<table>{caption}{head}<tbody>\n{body}\n</tbody></table>"

    def _pad(self, cell: str, number: int, width: int) -> str:
        return cell.ljust(width) if number < self.left else cell.rjust(width)


def format_cost(cost: float | None) -> str:
    """Return a whole cost without decimals, any other with six digits or more; a dash for none."""
    if cost is None:
        return "-"
    if float(cost).is_integer():
        return f"{cost:.0f}"
    return f"{cost:.4f}" if abs(cost) < 1000 else f"{cost:.1f}"


def format_gap(gap: float | None) -> str:
    """Return a percentage with two decimals; a dash for none."""
    return "-" if gap is None else f"{gap:.2f} %"


def format_seconds(seconds: float | None) -> str:
    """Return seconds with three significant digits at least; a dash for none."""
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.3f} s"
