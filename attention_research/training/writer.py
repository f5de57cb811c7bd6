"""Wraps the asynchronous writer of Orbax and reports each failure as one exception with a short reason.

When an array of a checkpoint cannot be written, for example because the disk is full, Orbax logs the error and closes
the event loop while other arrays are being written. Python then warns about their unfinished tasks, at once and at the
end of the process, in thousands of lines. This module suppresses these messages and raises one error.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from attention_research.training import digests
from attention_research.training.plain_path import plain_path

#: Suffix of a folder while Orbax writes it.
WRITING = ".orbax-checkpoint-tmp"
#: Prefix of the folder of a checkpoint that was found damaged.
DAMAGED = "damaged-"


class NotWritten(Exception):
    """The checkpoint of a step was not written. Holds the step and the reason."""

    def __init__(self, step: int | None, reason: str):
        super().__init__(f"checkpoint {step}: {reason}")
        self.step, self.reason = step, reason


class Writer:
    """Writes `folder/<step>` in the background, and reads it. A folder appears only when it is complete.

    Orbax receives a path without special characters (`plain_path`).
    """

    def __init__(self, folder: Path):
        self.folder, (self.plain, self._alias) = folder, plain_path(folder)
        self.step: int | None = None
        self.names: frozenset[str] | None = None
        self.orbax = self._new()
        for logger in ("absl", "asyncio"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        hook = sys.unraisablehook
        self.complaints = sys.unraisablehook = hook if isinstance(hook, _Complaints) else _Complaints(hook)

    def _new(self) -> ocp.AsyncCheckpointer:
        options = ocp.options.AsyncOptions(post_finalization_callback=self._seal)
        return ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(), async_options=options)

    def _seal(self) -> None:
        """Writes the digests. Orbax calls this after the last array is written and before the folder is renamed."""
        if jax.process_index() == 0:
            digests.seal(self.folder / f"{self.step}{WRITING}")

    def save(self, step: int, state: Any) -> None:
        """Copies the state and returns. Raises NotWritten if the write cannot start."""
        self.step = step
        self._told(lambda: self._begin(step, state))
        self.names = frozenset(names(state))

    def _begin(self, step: int, state: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)  # Orbax cannot create a folder through a link
        self.orbax.save(self.plain / str(step), args=ocp.args.PyTreeSave(state))

    def check(self) -> None:
        """Raises NotWritten if writing has failed since `save`. Does not wait."""
        self._told(self.orbax.check_for_errors)

    def wait(self) -> None:
        """Waits until the checkpoint is written, then verifies it.

        Raises NotWritten if writing has failed. Raises it too if the checkpoint cannot be read back; the checkpoint is
        then put aside.
        """
        wanted, self.names = self.names, None
        self._told(self.orbax.wait_until_finished)
        if wanted is not None:
            self._read_back(wanted)

    def _read_back(self, wanted: frozenset[str]) -> None:
        """Compares the sizes of the files with the digests, and the names of the arrays with those that were saved."""
        place, reason = self.folder / str(self.step), None
        try:
            if jax.process_index() == 0:
                reason = digests.damage(place, contents=False)
            if reason is None and (missing := wanted - self.stored(self.step).keys()):
                reason = f"{len(missing)} of its {len(wanted)} arrays are missing"
        except Exception as error:  # any exception of Orbax here would also occur in a later restore
            reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            if jax.process_index() == 0:
                put_aside(place)
            raise NotWritten(self.step, f"it cannot be read back ({reason.splitlines()[0]})")

    # Reading

    def stored(self, step: int | None) -> dict[str, Any]:
        """Path -> shape and dtype of each array of a step. Does not read the arrays. Raises KeyError if Orbax finds no
        metadata."""
        metadata = self.orbax.metadata(self.plain / str(step)).item_metadata
        if metadata is None:
            raise KeyError("no metadata")
        return names(metadata.tree)

    def restore(self, step: int, arguments: Any) -> Any:
        """The arrays of a step."""
        return self.orbax.restore(self.plain / str(step), args=arguments)

    def close(self) -> None:
        """Ends the threads."""
        self.orbax.close()
        if self._alias is not None:
            self._alias.cleanup()

    def _told(self, part: Callable[[], None]) -> None:
        try:
            return part()
        except Exception as error:
            number = re.search(r"os_error_code='(\d+)'", str(error))  # TensorStore reports errno in this form
            reason = os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or str(error)
        self.orbax = self._new()
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)  # from Orbax, also at exit
        self.complaints.silent = True
        gc.collect()
        self.complaints.silent = False
        shutil.rmtree(self.folder / f"{self.step}{WRITING}", ignore_errors=True)
        raise NotWritten(self.step, reason.splitlines()[0])


def put_aside(checkpoint: Path) -> None:
    """Renames the folder of a damaged checkpoint, so that no reader takes it for a valid one."""
    aside = checkpoint.with_name(f"{DAMAGED}{checkpoint.name}")
    shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        checkpoint.rename(aside)


def names(tree: Any) -> dict[str, Any]:
    """Path -> leaf. The path is the same for a tuple, a named tuple and the containers that Orbax restores."""

    def entry(key: Any) -> str:
        return str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", key))))

    return {"/".join(map(entry, path)): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


class _Complaints:
    """A `sys.unraisablehook` that ignores errors of the event loop that Orbax closed, and all errors while `silent`."""

    def __init__(self, others: Callable[[Any], Any]):
        self.others, self.silent = others, False

    def __call__(self, unraisable: Any) -> None:
        if not self.silent and str(unraisable.exc_value) != "Event loop is closed":
            self.others(unraisable)
