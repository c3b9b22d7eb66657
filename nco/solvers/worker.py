"""A process that runs a foreign solver: what happens to it does not happen to us."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import weakref
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from nco.solvers.base import SolverError
from nco.solvers.engines import obituary

_SCRIPT = Path(__file__).with_name("engines.py")


class Worker:
    """Runs the jobs of one engine of :mod:`nco.solvers.engines`, one after the other, in a process group of its own.

    The process starts with the first job and serves until the worker is closed or collected. It also ends by itself,
    and its running job with it, when the process that owns the worker dies.

    Parameters
    ----------
    engine : str
        A key of :data:`nco.solvers.engines.ENGINES`.
    """

    def __init__(self, engine: str):
        self.engine = engine
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._stop: weakref.finalize[..., Worker] | None = None

    def run(self, job: dict[str, Any], name: str, timeout: float | None = None) -> Any:
        """Return the result of a job.

        Parameters
        ----------
        job : dict
            What the engine takes.
        name : str
            The instance's, for the message of an error.
        timeout : float, optional
            Wall-clock seconds after which the process is killed.

        Raises
        ------
        SolverError
            If the engine fails, dies or does not answer in time.
        """

        def failure(reason: str) -> SolverError:
            return SolverError(f"instance {name!r}: {self.engine} failed: {reason}")

        process, jobs = self._start()
        try:
            jobs.send(job)
            if not jobs.poll(timeout):
                raise failure(f"no answer within {timeout:g} s, so its process was killed")
            state, result = jobs.recv()
        except (EOFError, OSError):
            code = process.wait()  # nothing but its end closes its end of the connection
            self.close()
            raise failure(obituary("its worker process", code)) from None
        except BaseException:  # the answer that is still to come would be taken for that of the next job
            self.close()
            raise
        if state != "done":
            raise failure(result)
        return result

    def close(self) -> None:
        """End the process and all that it has started."""
        if self._stop is not None:
            self._stop()
        self._running = self._stop = None

    def _start(self) -> tuple[subprocess.Popen[bytes], Connection]:
        """Return the process and the connection to it, which are started where there are none."""
        if self._running is not None and self._running[0].poll() is not None:
            self.close()
        if self._running is None:
            ours, theirs = Pipe()
            # -P: the script's folder holds modules with the names of the packages that it imports.
            command = [sys.executable, "-P", str(_SCRIPT), self.engine, str(theirs.fileno())]
            process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            theirs.close()
            self._running = process, ours
            self._stop = weakref.finalize(self, _end, process, ours)
        return self._running


def _end(process: subprocess.Popen[bytes], jobs: Connection) -> None:
    jobs.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wall_limit(kill_after: float | None, time_limit: float | None) -> float | None:
    """Return the wall-clock seconds after which a worker's job is killed.

    LKH and HGS hold their limits against CPU seconds, and LKH does not count its preparation: on a busy machine they
    may well take several times as long by the wall clock, so by default only what hangs is killed.

    Parameters
    ----------
    kill_after : float or None
        What the user says.
    time_limit : float or None
        The solver's own limit. Without either, nothing is killed.
    """
    if kill_after is None and time_limit is not None:
        return 10.0 * time_limit + 60.0
    return kill_after
