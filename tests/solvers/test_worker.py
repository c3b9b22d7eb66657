from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from nco.solvers.base import SolverError
from nco.solvers.worker import Worker, wall_limit

# An executable that runs without end and leaves a mark all the time.
BEATING = """#!/bin/sh
while :; do echo . >> "$0.beat"; sleep 0.05; done
"""


@pytest.fixture
def beating(tmp_path):
    """Return an executable that runs without end."""
    path = tmp_path / "beating"
    path.write_text(BEATING)
    path.chmod(0o755)
    return path


def beats(executable) -> int:
    """Return how many marks there are."""
    beat = executable.with_name("beating.beat")
    return beat.stat().st_size if beat.exists() else 0


def has_stopped(executable) -> bool:
    """Tell whether the executable does not run any more, after waiting some seconds for its end."""
    for _ in range(25):
        before = beats(executable)
        time.sleep(0.4)
        if beats(executable) == before:
            return True
    return False


def test_engine_that_cannot_start_is_a_failure(capfd):
    """A worker whose engine does not exist dies at once, and the job has failed by name."""
    with pytest.raises(SolverError, match="instance 'x': no-engine failed: its worker process ended with status 1"):
        Worker("no-engine").run({}, "x")
    assert "KeyError: 'no-engine'" in capfd.readouterr().err


def test_error_of_a_job_is_reported():
    """An exception in the engine comes back with its type and words; the worker serves on."""
    worker = Worker("executable")
    for _ in range(2):
        with pytest.raises(SolverError, match=r"instance 'x': executable failed: FileNotFoundError: .*no-such-file"):
            worker.run({"executable": "/no-such-file", "parameter_file": ""}, "x")


def test_timeout_ends_the_engine(beating):
    """What has not answered in time is killed."""
    worker = Worker("executable")
    with pytest.raises(SolverError, match="no answer within 1 s, so its process was killed"):
        worker.run({"executable": str(beating), "parameter_file": ""}, "x", timeout=1.0)
    assert has_stopped(beating)


def test_engine_ends_with_its_owner(beating):
    """When the process that owns a worker is killed, the worker and its running job end too."""
    script = "import sys; from nco.solvers.worker import Worker; Worker('executable').run(eval(sys.argv[1]), 'x')"
    job = repr({"executable": str(beating), "parameter_file": ""})
    owner = subprocess.Popen([sys.executable, "-c", script, job])
    while not beats(beating):
        assert owner.poll() is None
        time.sleep(0.05)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert has_stopped(beating)


def test_closed_worker_starts_anew(tmp_path):
    """A worker can be closed at any time; the next job starts another process."""
    (tmp_path / "true").write_text(f"#!{sys.executable}\n")
    os.chmod(tmp_path / "true", 0o755)
    worker = Worker("executable")
    worker.close()
    for _ in range(2):
        job = {"executable": str(tmp_path / "true"), "parameter_file": "", "tour_file": str(tmp_path / "none")}
        assert worker.run(job, "x") == []
        worker.close()


def test_wall_limit():
    """Nothing is killed without a limit, and by default late; what the user says counts."""
    assert wall_limit(None, None) is None
    assert wall_limit(None, 2.0) == 80.0
    assert wall_limit(5.0, 2.0) == wall_limit(5.0, None) == 5.0
