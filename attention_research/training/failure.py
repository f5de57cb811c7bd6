"""Writes error.txt: one line with the failure of a run's last attempt, for `status` and tables.

The file is deleted when the run continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attention_research.errors import ConfigError, RunError


def line_of(error: Exception) -> str:
    """The message of an error in one line. The type is added unless the error is a ConfigError or RunError.

    >>> line_of(KeyError("encoder.norm.scale"))
    "KeyError: 'encoder.norm.scale'"
    """
    line = " ".join(str(error).split())
    return line if isinstance(error, ConfigError | RunError) else f"{type(error).__name__}: {line}"


@contextmanager
def failure_told(workdir: Path) -> Iterator[None]:
    """Writes error.txt if the block fails. The calling process must hold the lock of the workdir.

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
    with contextlib.suppress(OSError):  # such as a full disk: the first error is the one to report
        (workdir / "error.txt").write_text(line + "\n", encoding="utf-8")
