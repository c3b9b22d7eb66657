"""The sandbox: both of its walls, one at a time, and what is left of the parent afterwards."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import hostile
import pytest
import torch

from nco.projection.check import ProgramFailure
from nco.projection.contract import check_contract, probe_points
from nco.projection.grammar import PUBLISHED, source
from nco.projection.jail import Limits
from nco.projection.program import compile_program
from nco.projection.sandbox import Sandbox

LIMITS = Limits(cpu_seconds=5, memory_bytes=1 << 29, seconds=1.0)
SECRET = "sk-secret-key-of-the-parent"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the sandbox needs POSIX")


@pytest.fixture(scope="module")
def checked() -> Iterator[Sandbox]:
    """Return a sandbox as a search uses it."""
    with Sandbox(LIMITS) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def unchecked() -> Iterator[Sandbox]:
    """Return a sandbox that runs what the check would refuse, or skip where the system lacks the filter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", SECRET)
        with Sandbox(LIMITS, checked=False) as sandbox:
            if not sandbox.protections["system_call_filter"]:
                pytest.skip("this system has no filter of system calls")
            yield sandbox


@pytest.fixture
def impatient(unchecked: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Return the same sandbox with half a second for a program: many of the corpus would use all they get."""
    monkeypatch.setattr(unchecked, "limits", replace(LIMITS, seconds=0.5))
    return unchecked


def run(sandbox: Sandbox, program: str) -> torch.Tensor:
    """Return what a program makes of the probe."""
    with sandbox.open(program) as project:
        return project(probe_points())


def failure_of(sandbox: Sandbox, program: str) -> ProgramFailure:
    """Return how a program fails."""
    with pytest.raises(ProgramFailure) as caught:
        run(sandbox, program)
    return caught.value


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_programs_compute_the_same_as_here(checked: Sandbox, name: str) -> None:
    """A program gives in the sandbox what it gives in this process, and keeps the contract there."""
    program = source(PUBLISHED[name])
    torch.testing.assert_close(run(checked, program), compile_program(program)(probe_points()), rtol=0, atol=0)
    with checked.open(program) as project:
        check_contract(project)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("return points +", "syntax", "line 2"),
        ("return open", "forbidden", "line 2: the name 'open'"),
        ("return points + torch.zeros(3, 3)", "crash", "line 2: RuntimeError"),
        ("return torch.zeros(10 ** 6, 10 ** 5)", "memory", "line 2"),
        ("return points / 0", "non-finite", "not finite"),
        ("return points[0]", "contract", "shape"),
        ("points += 1\n    return points", "contract", "in place"),
        ("n = 10\n    for i in range(64):\n        n = n * n\n    return points * n", "timeout", "within 1 s"),
    ],
)
def test_failures_have_their_kinds(checked: Sandbox, body: str, kind: str, message: str) -> None:
    """Every way to fail is told apart, with the line where there is one."""
    failure = failure_of(checked, f"def project(points):\n    {body}\n")
    assert failure.kind == kind
    assert message in failure.message


@pytest.mark.parametrize("name", sorted(hostile.sources()))
def test_hostile_program_fails(checked: Sandbox, name: str) -> None:
    """Every program of the corpus ends in a failure, and the sandbox serves the next program as before."""
    failure_of(checked, hostile.sources()[name])
    run(checked, source(PUBLISHED["seed"]))


def test_hostile_programs_are_contained_without_the_check(impatient: Sandbox, tmp_path: Path) -> None:
    """With the check switched off, the corpus makes no file, no connection, no process and no harm to the parent."""
    mark, victim = tmp_path / "mark", tmp_path / "victim"
    victim.write_text("untouched")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(0.1)
        environment, threads = dict(os.environ), threading.active_count()
        impatient.open(source(PUBLISHED["seed"])).close()
        for name, program in hostile.sources().items():
            program = program.replace("MARK", str(mark)).replace("VICTIM", str(victim)).replace("PORT", str(port))
            with suppress(ProgramFailure):
                assert run(impatient, program).shape == probe_points().shape, name
            assert not mark.exists(), name
            assert victim.read_text() == "untouched", name
        with pytest.raises(TimeoutError):
            server.accept()
    assert dict(os.environ) == environment
    assert threading.active_count() == threads
    assert victim.stat().st_mode & 0o777 == 0o644 & ~_umask()
    impatient.open(source(PUBLISHED["seed"])).close()  # the sandbox still serves


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        ("import os\n    os.open('/etc/hostname', os.O_RDONLY)", False),
        ("import os\n    os.stat('/etc/hostname')", False),
        ("import os\n    os.listdir('/')", False),
        ("import os\n    os.fork()", False),
        ("import socket\n    socket.socket()", False),
        ("import os\n    os.kill(os.getppid(), 0)", False),
        ("import os\n    os.getpid()", True),
    ],
)
def test_system_calls_are_filtered(unchecked: Sandbox, body: str, allowed: bool) -> None:
    """Calls off the list fail with EPERM, even for a program that has all of Python."""
    program = f"def project(points):\n    {body}\n    return points\n"
    if allowed:
        run(unchecked, program)
    else:
        failure = failure_of(unchecked, program)
        assert failure.kind == "crash" and "PermissionError" in failure.message


def test_environment_is_scrubbed(unchecked: Sandbox) -> None:
    """The parent's variables are not there, so no program can tell a key in its failure."""
    body = "import os\n    raise ValueError(' '.join(sorted(os.environ)) + ' '.join(os.environ.values()))"
    failure = failure_of(unchecked, f"def project(points):\n    {body}\n")
    assert SECRET not in failure.message
    assert "OPENAI_API_KEY" not in failure.message and "HOME" in failure.message


def test_programs_meet_no_other(unchecked: Sandbox) -> None:
    """What a program does to torch is gone with its process."""
    run(unchecked, "def project(points):\n    torch.tanh = None\n    return points\n")
    run(unchecked, "def project(points):\n    return torch.tanh(points)\n")


def test_no_process_is_left(checked: Sandbox) -> None:
    """The process of a program that has timed out is gone when its failure is reported."""
    program = checked.open(
        "def project(points):\n    n = 9\n    for i in range(64):\n        n = n * n\n    return points\n"
    )
    pid = program._pid
    assert pid is not None
    with pytest.raises(ProgramFailure):
        program(probe_points())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_closed_sandbox_is_gone() -> None:
    """A closed sandbox leaves neither its process nor its folder."""
    sandbox = Sandbox(LIMITS)
    pid, folder = sandbox._process.pid, Path(sandbox._folder.name)
    assert folder.is_dir()
    sandbox.close()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
