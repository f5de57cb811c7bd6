"""Orbax's asynchronous writer with its failures as one reason: what a full disk makes it say is thousands of lines.

When one array of a checkpoint is refused, Orbax logs it, closes the event loop under the writes of the other arrays,
and leaves their tasks for Python to complain about, then and at the end of the process. All that is the one failure
which is raised here.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from attention_research.training import digests

#: Suffix of the folder that Orbax is writing.
WRITING = ".orbax-checkpoint-tmp"


class NotWritten(Exception):
    """The checkpoint of this step was not written, for this reason."""

    def __init__(self, step: int | None, reason: str):
        super().__init__(f"checkpoint {step}: {reason}")
        self.step, self.reason = step, reason


class Writer:
    """Writes `folder/<step>` in the background, sealed by its digests and whole, or not there at all."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.step: int | None = None
        self.orbax = self._new()
        for logger in ("absl", "asyncio"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        hook = sys.unraisablehook
        self.complaints = sys.unraisablehook = hook if isinstance(hook, _Complaints) else _Complaints(hook)

    def _new(self) -> ocp.AsyncCheckpointer:
        options = ocp.options.AsyncOptions(post_finalization_callback=self._seal)
        return ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(), async_options=options)

    def _seal(self) -> None:
        """Called by Orbax between the last array and the renaming."""
        if jax.process_index() == 0:
            digests.seal(self.folder / f"{self.step}{WRITING}")

    def save(self, step: int, state: Any) -> None:
        """Copies the state and returns. Raises NotWritten where the beginning fails."""
        self.step = step
        self._told(lambda: self.orbax.save(self.folder / str(step), args=ocp.args.PyTreeSave(state)))

    def check(self) -> None:
        """Raises NotWritten where writing has failed since `save`; does not wait."""
        self._told(self.orbax.check_for_errors)

    def wait(self) -> None:
        """Waits for the end of writing. Raises NotWritten as `check`."""
        self._told(self.orbax.wait_until_finished)

    def close(self) -> None:
        """Ends the threads."""
        self.orbax.close()

    def _told(self, part: Callable[[], None]) -> None:
        try:
            return part()
        except Exception as error:
            number = re.search(r"os_error_code='(\d+)'", str(error))  # TensorStore's way of saying errno
            reason = os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or str(error)
        self.orbax = self._new()
        self.complaints.silent = True
        gc.collect()
        self.complaints.silent = False
        shutil.rmtree(self.folder / f"{self.step}{WRITING}", ignore_errors=True)
        raise NotWritten(self.step, reason.splitlines()[0])


class _Complaints:
    """A `sys.unraisablehook` without those about Orbax's closed loop; while `silent`, without any."""

    def __init__(self, others: Callable[[Any], Any]):
        self.others, self.silent = others, False

    def __call__(self, unraisable: Any) -> None:
        if not self.silent and str(unraisable.exc_value) != "Event loop is closed":
            self.others(unraisable)
