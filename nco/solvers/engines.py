"""Foreign solvers, run by :class:`nco.solvers.worker.Worker` in a process of its own.

This file is started as a script and imports nothing of nco, so that it is up in a moment. It loads one engine, then
forks for every job: LKH calls ``exit`` on errors, HGS may crash or never end, and both keep state between calls (the
tours of LKHpy depend on what was solved before in the same process). A fork starts clean, and takes only its own job
along when it dies.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

Job = dict[str, Any]


class EngineError(Exception):
    """A job that has failed, for a reason that needs no more explanation."""


def obituary(process: str, code: int, log: str = "") -> str:
    """Say how a process ended, by its exit code or negative signal, with its last words."""
    how = f"{process} ended with status {code}" if code >= 0 else f"{process} was killed by signal {-code}"
    words = log.strip().splitlines()
    return f"{how}: {words[-1].strip()}" if words else how


def run_lkhpy(job: Job) -> list[int]:
    """Return the nodes that LKH visits, from 0; depot copies are 0 or N and above."""
    import LKHpy

    return LKHpy.par_file(job["parameter_file"]).tolist()[:-1]  # it repeats the first node at the end


def run_elkai(job: Job) -> list[int]:
    """Return the nodes in the order of the tour, from 0.

    elkai's public functions take neither a seed nor a number of trials; the function under them takes any parameter.
    """
    from elkai import _elkai

    parameters = re.sub(r"(?m)^(PROBLEM_FILE = ).*", r"\1:stdin:", Path(job["parameter_file"]).read_text())
    return [node - 1 for node in _elkai.solve_problem(parameters, Path(job["problem_file"]).read_text())]


def run_executable(job: Job) -> list[int]:
    """Return the nodes that LKH visits, from 0; depot copies are N and above."""
    command = [job["executable"], job["parameter_file"]]
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    if ended.returncode:
        raise EngineError(obituary("its process", ended.returncode, ended.stderr))
    tour = Path(job["tour_file"])
    if not tour.exists():  # no run has ended within the limits
        return []
    section = tour.read_text().split("TOUR_SECTION", 1)[1].split("-1", 1)[0]
    return [int(token) - 1 for token in section.split()]


def run_hgs(job: Job) -> list[list[int]]:
    """Return the routes that HGS finds, empty if it finds no feasible solution."""
    package = importlib.import_module(job["package"])
    solver = package.Solver(package.AlgorithmParameters(**job["parameters"]), verbose=False)
    try:
        return solver.solve_cvrp(job["data"], rounding=False).routes
    except RuntimeError as error:
        if "no feasible solution" in str(error):  # hybgensea's way to say so; hygese returns no routes
            return []
        raise


ENGINES: dict[str, tuple[str | None, Callable[[Job], Any]]] = {
    "executable": (None, run_executable),
    "lkhpy": ("LKHpy", run_lkhpy),
    "elkai": ("elkai", run_elkai),
    "hygese": ("hygese", run_hgs),
    "hybgensea": ("hybgensea", run_hgs),
}


def serve(engine: str, jobs: Connection) -> None:
    """Answer jobs with ("done", result) or ("failed", reason) until the other end closes."""
    package, function = ENGINES[engine]
    if package is not None:
        importlib.import_module(package)  # once, for all forks
    while True:
        try:
            job = jobs.recv()
        except EOFError:
            return
        jobs.send(_run(function, job, jobs))


def _run(function: Callable[[Job], Any], job: Job, jobs: Connection) -> tuple[str, Any]:
    """Run a job in a fork, and end with all that belongs to it when the asking process is gone."""
    results, answer = Pipe(duplex=False)
    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            jobs.close()  # the asking process must see it close when this one's parent dies
            os.dup2(log.fileno(), 2)
            answer.send(_outcome(function, job))
            os._exit(0)
        answer.close()
        # Nobody sends a second job before the first is answered: if there is something to read, it is the end.
        if jobs in wait([results, jobs]):
            os.killpg(0, signal.SIGKILL)
        try:
            outcome = results.recv()
        except EOFError:
            outcome = None
        results.close()
        _, status = os.waitpid(child, 0)
        if outcome is None:
            log.seek(0)
            code = os.waitstatus_to_exitcode(status)
            outcome = "failed", obituary("its process", code, log.read().decode(errors="replace"))
        return outcome


def _outcome(function: Callable[[Job], Any], job: Job) -> tuple[str, Any]:
    try:
        return "done", function(job)
    except EngineError as error:
        return "failed", str(error)
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    serve(sys.argv[1], Connection(int(sys.argv[2])))
