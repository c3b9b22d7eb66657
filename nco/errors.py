"""The errors that users of nco meet; all derive from :class:`NcoError`.

The command line turns each of them into one line and exit code 2.
"""

from __future__ import annotations

from pathlib import Path


class NcoError(Exception):
    """Base of every error that is the input's or the set-up's fault, not the program's."""


class InstanceFormatError(NcoError, ValueError):
    """A file cannot be read as the format that it claims to be.

    Parameters
    ----------
    reason : str
        What is wrong, in one sentence.
    path : path-like, optional
        The file.
    line : int, optional
        1-based line number where the reader stopped.
    """

    def __init__(self, reason: str, path: str | Path | None = None, line: int | None = None):
        self.reason = reason
        self.path = path
        self.line = line
        place = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(f"{place}: {reason}" if place else reason)


class InfeasibleInstance(NcoError, ValueError):
    """An instance that no solution can satisfy, or whose fields contradict one another."""


class InfeasibleSolution(NcoError, ValueError):
    """A solution that breaks the rules of its instance; the message names the row, the node and the rule."""


class SolverUnavailable(NcoError, RuntimeError):
    """A solver's package or executable is missing; the message says how to install it."""


class UsageError(NcoError, ValueError):
    """A command, suite or option that cannot be carried out as written."""


class CheckpointError(NcoError, ValueError):
    """A checkpoint or weights folder that does not fit the model it is loaded into."""
