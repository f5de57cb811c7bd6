"""Orbax's asynchronous writer with its failures as one reason: what a full disk makes it say is thousands of lines.

When one array of a checkpoint is refused, Orbax logs it, closes the event loop under the writes of the other arrays,
and leaves their tasks for Python to complain about, then and at the end of the process. All that is the one failure
which is raised here.
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

#: Suffix of the folder that Orbax is writing.
WRITING = ".orbax-checkpoint-tmp"
#: Prefix of the folder of a checkpoint that was found damaged.
DAMAGED = "damaged-"


class NotWritten(Exception):
    """The checkpoint of this step was not written, for this reason."""

    def __init__(self, step: int | None, reason: str):
        super().__init__(f"checkpoint {step}: {reason}")
        self.step, self.reason = step, reason


class Writer:
    """Writes `folder/<step>` in the background, sealed by its digests and whole, or not there at all; and reads it.

    Orbax gets the folder under a name without special characters (`plain_path`).
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
        """Called by Orbax between the last array and the renaming."""
        if jax.process_index() == 0:
            digests.seal(self.folder / f"{self.step}{WRITING}")

    def save(self, step: int, state: Any) -> None:
        """Copies the state and returns. Raises NotWritten where the beginning fails."""
        self.step = step
        self._told(lambda: self._begin(step, state))
        self.names = frozenset(names(state))

    def _begin(self, step: int, state: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)  # Orbax cannot make a folder through a link
        self.orbax.save(self.plain / str(step), args=ocp.args.PyTreeSave(state))

    def check(self) -> None:
        """Raises NotWritten where writing has failed since `save`; does not wait."""
        self._told(self.orbax.check_for_errors)

    def wait(self) -> None:
        """Waits for the end of writing, and looks at what was written as a reader does. Raises NotWritten as `check`,
        and where the checkpoint cannot be read back: then it is put aside."""
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
        except Exception as error:  # whatever Orbax raises, a reader would meet it too
            reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            if jax.process_index() == 0:
                put_aside(place)
            raise NotWritten(self.step, f"it cannot be read back ({reason.splitlines()[0]})")

    # Reading

    def stored(self, step: int | None) -> dict[str, Any]:
        """Path -> shape and dtype of each array of a step; reads no array. Raises KeyError where Orbax finds none."""
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
            number = re.search(r"os_error_code='(\d+)'", str(error))  # TensorStore's way of saying errno
            reason = os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or str(error)
        self.orbax = self._new()
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)  # Orbax's, at exit too
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
    """Path -> leaf, with the same path whether a container is a tuple, a named tuple or what Orbax made of it."""

    def entry(key: Any) -> str:
        return str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", key))))

    return {"/".join(map(entry, path)): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


class _Complaints:
    """A `sys.unraisablehook` without those about Orbax's closed loop; while `silent`, without any."""

    def __init__(self, others: Callable[[Any], Any]):
        self.others, self.silent = others, False

    def __call__(self, unraisable: Any) -> None:
        if not self.silent and str(unraisable.exc_value) != "Event loop is closed":
            self.others(unraisable)
