"""error.txt: the line of the failure that ended a run's last attempt, for `status` and tables; gone when it goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attention_research.errors import ConfigError, RunError


def line_of(error: Exception) -> str:
    """An error in one line; one that no user was meant to see, with its type."""
    line = " ".join(str(error).split())
    return line if isinstance(error, ConfigError | RunError) else f"{type(error).__name__}: {line}"


@contextmanager
def failure_told(workdir: Path) -> Iterator[None]:
    """Writes error.txt where the block fails; to be entered by the process that holds the workdir's lock.

    A run that was asked to stop (SystemExit, KeyboardInterrupt) has not failed.
    """
    (workdir / "error.txt").unlink(missing_ok=True)
    try:
        yield
    except Exception as error:
        tell_failure(workdir, line_of(error))
        raise


def tell_failure(workdir: Path, line: str) -> None:
    """Writes error.txt."""
    with contextlib.suppress(OSError):  # a full disk: the first error is the one to tell
        (workdir / "error.txt").write_text(line + "\n", encoding="utf-8")
