"""Sets the lowest priority of the operating system, for background work."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from pathlib import Path

#: Number of the system call `ioprio_set`, which the C library does not wrap.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_THIS_PROCESS, _IDLE = 1, 3 << 13


def lowest() -> None:
    """Gives this process, and its future children, the lowest priority for processors and disks.

    Sets nice 19, and on Linux also the idle classes of both schedulers if that is permitted. It cannot be undone.
    """
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        except OSError:  # not permitted: only the nice value applies
            return
        number = _IOPRIO_SET.get(platform.machine())
        if number is not None:
            ctypes.CDLL(None).syscall(number, _THIS_PROCESS, 0, _IDLE)


def nice_session() -> None:
    """Gives the session of this process the nice value of the process, if the process leads the session.

    Linux divides processors first among sessions (autogroup), then among the processes of a session. Without this call,
    a process with nice 19 in its own session would get as much time as all the processes of another session together.
    """
    if os.getsid(0) == os.getpid() and os.nice(0) > 0:
        with contextlib.suppress(OSError):  # not Linux, or a kernel without autogroups
            Path("/proc/self/autogroup").write_text(str(os.nice(0)))
