"""The lowest priority that the operating system has, for computing that is to disturb nobody."""

from __future__ import annotations

import ctypes
import os
import platform

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
