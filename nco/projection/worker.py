"""The sandbox's own side: a process that runs no program but forks a confined child for each.

Started as ``python -m nco.projection.worker FD`` with a scrubbed environment. It imports torch once, keeps to
one thread (so that forking is safe), and serves orders on the socket FD: ``start`` comes with the socket of a new
child and is answered by its process id; ``wait`` is answered by how a child has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from nco.projection import jail
from nco.projection.frames import pack, unpack


def main(control: socket.socket) -> None:
    """Serve orders until the other end of the socket is closed."""
    isolated = jail.isolate()  # before torch is imported: it needs a process of one thread
    _warm_up()
    control.sendall(pack({"isolated": isolated}))
    children: set[int] = set()
    while True:
        # An order is one byte with its socket, or one byte and a process id; both sides wait for each other.
        order, descriptors, _, _ = socket.recv_fds(control, 32, 1)
        if not order:
            break
        if order == b"s":
            children.add(pid := _fork(control, descriptors[0]))
            control.sendall(pack({"pid": pid}))
        else:
            pid = int(order[1:])
            _, status = os.waitpid(pid, 0)
            children.discard(pid)
            control.sendall(pack({"code": os.waitstatus_to_exitcode(status)}))
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):  # the sandbox's folder, if the one who made it was killed
        os.rmdir(os.getcwd())


def _fork(control: socket.socket, channel: int) -> int:
    """Start a child that serves one program on a channel; return its process id."""
    pid = os.fork()
    if pid:
        os.close(channel)
        return pid
    try:
        control.close()
        os.setsid()
        jail.follow_parent()
        _serve(channel)
    finally:
        os._exit(1)  # nothing of the parent's may be run or flushed here


def _serve(channel: int) -> NoReturn:
    """Confine this process, then load one program and answer calls of it until the channel is closed."""
    header, _ = unpack(lambda count: _read(channel, count))
    filtered = jail.confine(jail.Limits(**header["limits"]))
    _write(channel, pack({"filtered": filtered}))
    project: Callable[..., Any] | None = None
    while True:
        header, payload = unpack(lambda count: _read(channel, count))
        try:
            if "source" in header:
                project, reply = _load(header["source"], header["checked"]), pack({})
            else:
                assert project is not None
                reply = _call(project, header, payload)
        except BaseException as error:  # whatever a program raises is its failure, SystemExit included
            failure = _failure(error)
            reply = pack({"kind": failure.kind, "message": failure.message})
        _write(channel, reply)


def _load(source: str, checked: bool) -> Callable[..., Any]:
    """Return the function of a program, which is checked once more; unchecked ones have all of Python."""
    from nco.projection import program

    if checked:
        return program.compile_program(source)
    namespace = {**program.program_namespace(), "__builtins__": __builtins__}
    exec(compile(source, "<projection>", "exec"), namespace)
    return namespace[program.FUNCTION]


def _call(project: Callable[..., Any], header: dict[str, Any], payload: bytes) -> bytes:
    """Return the reply to one call."""
    import torch

    from nco.projection.contract import check_result

    points = torch.frombuffer(bytearray(payload), dtype=getattr(torch, header["dtype"])).view(header["shape"])
    before = points.clone()
    result = check_result(before, points, project(points))
    return pack({}, result.contiguous().numpy().tobytes())


def _failure(error: BaseException) -> Any:
    """Return the failure that an exception of a program amounts to."""
    from nco.projection.check import ProgramFailure

    if isinstance(error, ProgramFailure):
        return error
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # an exception class of the program's own
        text = "an exception without a message"
    is_memory = isinstance(error, MemoryError) or "can't allocate memory" in text or "bad_alloc" in text
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<projection>":
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    place = f"line {lines[-1]}: " if lines else ""
    return ProgramFailure("memory" if is_memory else "crash", place + text)


def _warm_up() -> None:
    """Import all that a child needs and let torch set itself up: a child can open no file."""
    import torch

    from nco.projection import contract, program  # noqa: F401

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    points = torch.linspace(0, 1, 60).view(2, 15, 2)
    matrix = points.mT @ points + torch.eye(2)
    for warm in (torch.tanh, torch.exp, torch.log1p, torch.sqrt, torch.sin, torch.atan, torch.sigmoid, torch.sort):
        warm(points)
    torch.linalg.eigh(matrix)
    torch.linalg.norm(points, dim=-1).quantile(0.5, dim=1)
    torch.cdist(points, points)
    torch.einsum("bsi,bij->bsj", points, matrix)


def _read(descriptor: int, count: int) -> bytes:
    """Return exactly ``count`` bytes, or end the process when the channel is closed."""
    parts = bytearray()
    while len(parts) < count:
        part = os.read(descriptor, count - len(parts))
        if not part:
            os._exit(0)
        parts += part
    return bytes(parts)


def _write(descriptor: int, message: bytes) -> None:
    view = memoryview(message)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
