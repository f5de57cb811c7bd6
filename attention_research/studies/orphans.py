"""Child processes that end with their parent process."""

from __future__ import annotations

import ctypes
import os
import signal


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends (Linux), so that no orphan continues to work."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)
