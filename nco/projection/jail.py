"""What the operating system can forbid a process: limits, namespaces and a filter of system calls.

:func:`isolate` and :func:`confine` are called by the sandbox's own processes on themselves. Nothing here needs
privileges or packages. Where the system lacks a means, it is left out and reported, never assumed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from dataclasses import dataclass

# System calls that computing on tensors in memory needs, x86-64 and arm64. Not among them: to open or change any file,
# to start a process or a program, to make a socket, to send a signal, to look at another process. Threads are not
# started either, since the worker has one.
_ALLOWED = {
    "x86_64": """read 0 write 1 close 3 fstat 5 poll 7 lseek 8 mmap 9 mprotect 10 munmap 11 brk 12 rt_sigaction 13
        rt_sigprocmask 14 rt_sigreturn 15 readv 19 writev 20 sched_yield 24 mremap 25 madvise 28 nanosleep 35 getpid 39
        exit 60 getcwd 79 gettimeofday 96 getrusage 98 sigaltstack 131 gettid 186 futex 202 sched_getaffinity 204
        clock_gettime 228 clock_nanosleep 230 exit_group 231 getrandom 318 membarrier 324 rseq 334""",
    "aarch64": """getcwd 17 close 57 lseek 62 read 63 write 64 readv 65 writev 66 ppoll 73 fstat 80 exit 93
        exit_group 94 futex 98 nanosleep 101 clock_gettime 113 clock_nanosleep 115 sched_getaffinity 123 sched_yield 124
        sigaltstack 132 rt_sigaction 134 rt_sigprocmask 135 rt_sigreturn 139 getrusage 165 gettimeofday 169 getpid 172
        gettid 178 brk 214 munmap 215 mremap 216 mmap 222 mprotect 226 madvise 233 getrandom 278 membarrier 283
        rseq 293""",
}
_AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_DUMPABLE = 1, 38, 22, 4
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC, _CLONE_NEWNS = 0x10000000, 0x40000000, 0x08000000, 0x00020000
_SIGKILL = 9


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    Attributes
    ----------
    cpu_seconds : int
        Of its process in all.
    memory_bytes : int
        Address space beyond what the process has when it starts.
    seconds : float
        Wall-clock time of one call.
    """

    cpu_seconds: int = 3_600
    memory_bytes: int = 1 << 30
    seconds: float = 10.0


def isolate() -> bool:
    """Give this process its own user, network and mount namespaces, if the system lets it; it must have one thread.

    The network namespace has no interface that is up, the loopback one included.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWNS) == 0


def follow_parent() -> None:
    """Let this process be killed when the one that started it ends; Linux only."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def confine(limits: Limits) -> bool:
    """Limit this process for good; return whether its system calls are filtered.

    Sets limits on CPU time, address space, core files, written files (none), open files and processes (none), then
    installs a filter under which every call that is not on the list fails with EPERM.
    """
    _limit(resource.RLIMIT_CPU, limits.cpu_seconds)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NPROC, 0)
    used = _address_space()
    if used is not None:
        _limit(resource.RLIMIT_AS, used + limits.memory_bytes)
    return _filter_system_calls()


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _address_space() -> int | None:
    """Return the bytes of address space in use, None where the system does not say (and limits them poorly)."""
    if not sys.platform.startswith("linux"):
        return None
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _filter_system_calls() -> bool:
    """Install a seccomp filter that lets only the listed system calls through."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in _ALLOWED:
        return False
    program = _filter_program([int(word) for word in _ALLOWED[machine].split()[1::2]], _AUDIT_ARCHITECTURE[machine])
    buffer = ctypes.create_string_buffer(program, len(program))

    class _Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    described = _Program(len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    mode_filter = 2
    return libc.prctl(_PR_SET_SECCOMP, mode_filter, ctypes.byref(described), 0, 0) == 0


def _filter_program(allowed: list[int], architecture: int) -> bytes:
    """Return a classic BPF program: kill on another architecture, allow the listed calls, fail all others."""
    load, jump_equal, give = 0x20, 0x15, 0x06
    kill, allow, fail = 0x80000000, 0x7FFF0000, 0x00050001  # fail: errno EPERM

    def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("<HBBI", code, if_true, if_false, value)

    number_offset, architecture_offset = 0, 4
    lines = [
        instruction(load, architecture_offset),
        instruction(jump_equal, architecture, 1, 0),
        instruction(give, kill),
        instruction(load, number_offset),
    ]
    # Calls of the x32 interface have a bit set in their number, so none of them is on the list.
    for position, number in enumerate(allowed):
        lines.append(instruction(jump_equal, number, len(allowed) - position, 0))
    return b"".join([*lines, instruction(give, fail), instruction(give, allow)])
