"""Progress of long work: a bar on a terminal, plain lines elsewhere; always on stderr, so that stdout stays data."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

# Called with (steps done, steps in all).
Progress = Callable[[int, int], None]


@contextmanager
def track(total: int, description: str, *, stream: TextIO | None = None, every: float = 10.0) -> Iterator[Progress]:
    """Show how far a piece of work is while the context lasts.

    Parameters
    ----------
    total : int
        Steps in all, as far as known at the start.
    description : str
    stream : text file, optional
        ``sys.stderr`` by default.
    every : float
        Seconds between two plain lines; the first and the last step have a line in any case.

    Yields
    ------
    callable
        What a solver takes as its ``progress``.
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield _plain_lines(description, stream, every)
        return
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done, in_all: bar.update(task, completed=done, total=in_all)


def part(progress: Progress, start: int, count: int, total: int) -> Progress:
    """Return what a part of the work calls: its beginning and end are the steps ``start`` and ``start + count``."""
    return lambda done, in_all: progress(start + count * done // max(in_all, 1), total)


def _plain_lines(description: str, stream: TextIO, every: float) -> Progress:
    """Return a callable that writes a line at the first step, every so many seconds, and at the last step."""
    start = time.monotonic()
    next_line = start
    is_done = False

    def report(done: int, total: int) -> None:
        nonlocal next_line, is_done
        now = time.monotonic()
        if now >= next_line or (done >= total and not is_done):
            stream.write(f"{description}: {done}/{total} ({now - start:.0f} s)\n")
            stream.flush()
            next_line = now + every
        is_done = done >= total

    return report
