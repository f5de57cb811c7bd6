"""The lowest priority that the operating system has, for computing that is to disturb nobody."""

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
    """Gives this process, and those that it starts from now on, the lowest priority for processors and disks.

    Nice 19 everywhere; on Linux also the idle classes of both schedulers, where they may be had. It cannot be undone.
    """
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        except OSError:  # forbidden here: nice alone
            return
        number = _IOPRIO_SET.get(platform.machine())
        if number is not None:
            ctypes.CDLL(None).syscall(number, _THIS_PROCESS, 0, _IDLE)


def nice_session() -> None:
    """Gives the session of this process, where the process leads one, the niceness of the process.

    Linux divides processors among sessions first (autogroup) and among the processes of a session second: in a session
    of its own a process of niceness 19 would otherwise get as much as all the processes of another session.
    """
    if os.getsid(0) == os.getpid() and os.nice(0) > 0:
        with contextlib.suppress(OSError):  # not Linux, or a kernel without autogroups
            Path("/proc/self/autogroup").write_text(str(os.nice(0)))
