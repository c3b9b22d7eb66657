"""Where projection programs run: in processes of their own that can compute on tensors and do nothing else.

A :class:`Sandbox` starts one *spawned* process with a scrubbed environment that imports torch and never runs a
program. For each program it forks a child, which gives up all it can (see :mod:`nco.projection.jail`) before it sees
the program, and which is killed with its process group when it is done or does not answer in time. A program thus
meets no other program, no key, no instance and no network weights: only the points of one decision at a time. One call
costs a round trip over a socket, small beside the network's forward pass.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from dataclasses import asdict
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from nco.projection.check import FAILURES, ProgramFailure, checked_tree
from nco.projection.frames import pack, unpack
from nco.projection.jail import Limits

_START_SECONDS = 120.0
_DTYPES = {torch.float32: "float32", torch.float64: "float64"}


class Sandbox:
    """Runs programs. To be used as a context manager, or closed.

    Parameters
    ----------
    limits : Limits
        Of each program.
    checked : bool
        False lets programs run that the check refuses: for tests of the second wall, never for a search.

    Raises
    ------
    RuntimeError
        If the process cannot be started.
    """

    def __init__(self, limits: Limits | None = None, *, checked: bool = True):
        self.limits = Limits() if limits is None else limits
        self.checked = checked
        self._folder = tempfile.TemporaryDirectory(prefix="nco-sandbox-")
        self._control, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nco.projection.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
            env=_environment(self._folder.name),
            start_new_session=True,
        )
        theirs.close()
        self._stop = weakref.finalize(self, _end, self._process, self._control, self._folder)
        self._control.settimeout(_START_SECONDS)
        self._isolated = bool(self._answer()["isolated"])
        self._filtered: bool | None = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes of the sandbox."""
        self._stop()

    @property
    def protections(self) -> dict[str, bool]:
        """What the operating system has allowed: own namespaces (no network), a filter of system calls."""
        if self._filtered is None:
            self.open("def project(points):\n    return points\n").close()
        return {"namespaces": self._isolated, "system_call_filter": bool(self._filtered), "resource_limits": True}

    def open(self, source: str) -> SandboxedProgram:
        """Return a program that is loaded in a confined process of its own.

        Raises
        ------
        ProgramFailure
            If the check refuses it, or it fails while it is loaded.
        """
        if self.checked:
            checked_tree(source)
        ours, theirs = socket.socketpair()
        socket.send_fds(self._control, [b"s"], [theirs.fileno()])
        theirs.close()
        program = SandboxedProgram(self, ours, int(self._answer()["pid"]))
        ready = program.exchange({"limits": asdict(self.limits)})[0]
        self._filtered = bool(ready.get("filtered"))
        program.exchange({"source": source, "checked": self.checked})
        return program

    def reap(self, pid: int) -> int:
        """Return the exit code of a child that has ended or been killed."""
        self._control.sendall(b"w%d" % pid)
        return int(self._answer()["code"])

    def _answer(self) -> dict[str, Any]:
        try:
            return unpack(lambda count: _receive(self._control, count))[0]
        except (OSError, EOFError) as error:
            self.close()
            raise RuntimeError(f"the sandbox has died with the exit code {self._process.returncode}") from error


class SandboxedProgram:
    """One program in its process; a :data:`nco.projection.program.Project`. To be closed after use."""

    def __init__(self, sandbox: Sandbox, channel: socket.socket, pid: int):
        self._sandbox = sandbox
        self._channel = channel
        self._pid: int | None = pid

    def __enter__(self) -> SandboxedProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, points: Tensor) -> Tensor:
        """Return the projected points, float32 or float64 [B, S, 2].

        Raises
        ------
        ProgramFailure
            Of any kind but "syntax" and "forbidden".
        """
        array = points.detach().cpu().contiguous().numpy()
        header = {"shape": list(points.shape), "dtype": _DTYPES[points.dtype]}
        _, payload = self.exchange(header, array.tobytes(), reply_bytes=array.nbytes)
        projected = torch.frombuffer(bytearray(payload), dtype=points.dtype).view(points.shape)
        if not bool(projected.isfinite().all()):
            raise ProgramFailure("non-finite", "a projected coordinate is not finite")
        return projected.to(points.device)

    def exchange(
        self, header: dict[str, Any], payload: bytes = b"", reply_bytes: int = 0
    ) -> tuple[dict[str, Any], bytes]:
        """Send a message and return the answer to it; kill the process if it has not come within the time limit.

        Raises
        ------
        ProgramFailure
            What the process reports, or how it has ended.
        """
        if self._pid is None:
            raise ProgramFailure("crash", "the process of the program has ended")
        deadline = time.monotonic() + self._sandbox.limits.seconds
        try:
            self._channel.settimeout(self._sandbox.limits.seconds)
            self._channel.sendall(pack(header, payload))
            reply, answer = unpack(lambda count: _receive(self._channel, count, deadline))
        except TimeoutError:
            self.close()
            raise ProgramFailure("timeout", f"no answer within {self._sandbox.limits.seconds:g} s") from None
        except (EOFError, OSError):
            raise _obituary(self.close()) from None
        except (ValueError, RecursionError):
            self.close()
            raise ProgramFailure("crash", "the process of the program has sent what is no answer") from None
        if "kind" in reply:
            kind = reply["kind"] if reply["kind"] in FAILURES else "crash"
            raise ProgramFailure(kind, str(reply.get("message")))
        if len(answer) != reply_bytes:
            raise ProgramFailure("contract", f"an answer of {len(answer)} bytes instead of {reply_bytes}")
        return reply, answer

    def close(self) -> int:
        """End the process and its group; return its exit code, 0 if it had been ended before."""
        if self._pid is None:
            return 0
        pid, self._pid = self._pid, None
        self._channel.close()
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        return self._sandbox.reap(pid)


def _obituary(code: int) -> ProgramFailure:
    """Return the failure of a program whose process has ended by itself."""
    if code == -signal.SIGXCPU:
        return ProgramFailure("timeout", "the limit on CPU time was reached")
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with the exit code {code}"
    return ProgramFailure("crash", f"the process of the program {how}")


def _receive(channel: socket.socket, count: int, deadline: float | None = None) -> bytes:
    """Return exactly ``count`` bytes; TimeoutError at the deadline, EOFError at the end."""
    parts = bytearray()
    while len(parts) < count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            channel.settimeout(left)
        part = channel.recv(count - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _environment(folder: str) -> dict[str, str]:
    """Return all that the sandbox sees of the environment: where modules are, one thread, a folder of its own."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    own = {"HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path}
    return {**threads, **own}


def _end(process: subprocess.Popen[bytes], control: socket.socket, folder: tempfile.TemporaryDirectory[str]) -> None:
    control.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    folder.cleanup()
