"""Checkpoints of a train state by Orbax: written in the background, whole or not there, compared before a restore.

Orbax casts dtypes silently, restores what it finds and reads arrays whose files lost a bit: here names, shapes and
dtypes must agree first, and every file must have the digest that it was sealed with. A checkpoint is written beside its
place and renamed, one that goes is renamed before it is deleted, so that a step's folder is always a whole one.
"""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from attention_research.errors import RunError
from attention_research.training import digests
from attention_research.training.settings import Training
from attention_research.training.workdir import validation_losses

#: Suffix of what Orbax is writing; prefixes of what is being deleted, and of what was found damaged.
WRITING, DELETING, DAMAGED = ".orbax-checkpoint-tmp", "deleting-", "damaged-"


class Checkpoints:
    """The checkpoints of one workdir, under `checkpoints/<step>`; `settings` say which of them stay (None: all).

    These are the newest one, the `keep` newest on the schedule (every `checkpoint_every` steps, and the last step), and
    the `keep_best` of the lowest validation losses. What an interruption saved goes when the schedule saves again, so
    that an interrupted run ends with the checkpoints of an uninterrupted one.
    """

    def __init__(
        self, workdir: Path, settings: Training | None = None, report: Callable[[str], None] = lambda line: None
    ):
        self.workdir, self.folder = workdir, (workdir / "checkpoints").absolute()
        self.settings, self.report = settings, report
        self.writing: int | None = None
        options = ocp.options.AsyncOptions(post_finalization_callback=self._seal)
        self.orbax = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(), async_options=options)
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # what Orbax logs of an error is also raised

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except RunError:
            if error is None:  # else the first error is the one to tell
                raise

    # What there is

    def steps(self) -> list[int]:
        """The steps of all finished checkpoints."""
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdecimal())

    def scheduled(self) -> list[int]:
        """Those of them that an uninterrupted run has too."""
        if self.settings is None:
            return self.steps()
        every, last = self.settings.checkpoint_every, self.settings.steps
        return [step for step in self.steps() if step % every == 0 or step == last]

    def latest(self) -> int | None:
        """The step of the newest checkpoint that is whole; each newer one is reported."""
        for step in reversed(self.steps()):
            reason = digests.damage(self.folder / str(step))
            if reason is None:
                return step
            self.report(f"checkpoint {step} in {self.folder} is damaged ({reason}): skipped")
        return None

    def best(self, count: int = 1) -> list[int]:
        """The checkpoints of the `count` lowest validation losses, the lowest first."""
        losses = validation_losses(self.workdir)
        return sorted(losses.keys() & set(self.steps()), key=lambda step: (losses[step], step))[:count]

    def would_be_kept(self, step: int) -> bool:
        """Whether the validation loss of `step` is among the `keep_best` lowest so far, saved or not."""
        losses = validation_losses(self.workdir)
        lower = [other for other in losses if (losses[other], other) < (losses.get(step, math.inf), step)]
        return step in losses and len(lower) < self.settings.keep_best

    # Writing: by the process that holds the workdir's lock

    def clean(self) -> int | None:
        """`latest`, after putting newer ones aside and deleting what a killed process left unfinished."""
        for path in [*self.folder.glob(f"*{WRITING}*"), *self.folder.glob(f"{DELETING}*")]:
            shutil.rmtree(path, ignore_errors=True)
        latest = self.latest()
        for step in self.steps():
            if latest is None or step > latest:
                aside = self.folder / f"{DAMAGED}{step}"
                shutil.rmtree(aside, ignore_errors=True)
                (self.folder / str(step)).rename(aside)
        return latest

    def save(self, step: int, state: Any) -> None:
        """Copies the state and returns; it is written while training goes on.

        Raises RunError where the disk has not taken this one's beginning, or the one before; earlier ones stay.
        """
        self.wait()
        if step in self.steps():
            return
        self.writing = step
        try:
            self.orbax.save(self.folder / str(step), args=ocp.args.PyTreeSave(state))
        except Exception as error:
            raise self._not_written(error) from error

    def check(self) -> None:
        """Raises RunError where what is being written has failed; does not wait."""
        try:
            self.orbax.check_for_errors()
        except Exception as error:
            raise self._not_written(error) from error

    def wait(self) -> None:
        """Waits until the last one is written, and deletes those that need not stay. Raises RunError as `check`."""
        try:
            self.orbax.wait_until_finished()
        except Exception as error:
            raise self._not_written(error) from error
        if self.settings is not None:
            steps, best = self.steps(), self.best(self.settings.keep_best)
            for step in set(steps) - {*steps[-1:], *self.scheduled()[-self.settings.keep :], *best}:
                aside = (self.folder / str(step)).rename(self.folder / f"{DELETING}{step}")
                shutil.rmtree(aside, ignore_errors=True)

    def _seal(self) -> None:
        """Called by Orbax between the last array and the renaming."""
        if jax.process_index() == 0:
            digests.seal(self.folder / f"{self.writing}{WRITING}")

    def _not_written(self, error: Exception) -> RunError:
        shutil.rmtree(self.folder / f"{self.writing}{WRITING}", ignore_errors=True)
        number = re.search(r"os_error_code='(\d+)'", str(error))  # TensorStore's way of saying errno
        reason = os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or str(error)
        good = self.steps()[-1:]
        return RunError(
            f"checkpoint {self.writing} not written under {self.folder}: {reason.splitlines()[0]}; put that right and "
            f"rerun the same command, which continues from step {good[0] if good else 0}"
        )

    # Reading

    def restore(self, step: int, abstract: Any, *, partial: tuple[str, ...] | None = None) -> Any:
        """The state of `step`, shaped and placed as `abstract`; `partial` names the only top-level entries wanted.

        Raises RunError listing what is missing, unexpected, or of another shape or dtype.
        """
        place = self.folder / str(step)
        metadata = self.orbax.metadata(place).item_metadata
        if metadata is None:
            raise RunError(f"checkpoint {step} in {self.folder} cannot be read; delete it, or train again")
        stored = _flat(metadata.tree)
        wanted = _flat(abstract)
        if partial is not None:
            stored = {path: leaf for path, leaf in stored.items() if path.split("/")[0] in partial}
        differ = [
            f"{path} is {tuple(stored[path].shape)} {stored[path].dtype}, wanted {tuple(x.shape)} {x.dtype}"
            for path, x in wanted.items()
            if path in stored and (tuple(stored[path].shape) != tuple(x.shape) or stored[path].dtype != x.dtype)
        ]
        lists = {
            "missing": sorted(wanted.keys() - stored.keys()),
            "unexpected": sorted(stored.keys() - wanted.keys()),
            "different": differ,
        }
        if any(lists.values()):
            listed = "; ".join(f"{what}: {_some(names)}" for what, names in lists.items() if names)
            raise RunError(f"checkpoint {step} in {self.folder} is not of this model: {listed}")
        arguments = ocp.args.PyTreeRestore(
            item=abstract,
            restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),
            partial_restore=partial is not None,
        )
        return self.orbax.restore(place, args=arguments)

    def close(self) -> None:
        """Waits, then ends Orbax's threads. Raises RunError where the last one was not written."""
        try:
            self.wait()
        finally:
            self.orbax.close()


def _flat(tree: Any) -> dict[str, Any]:
    """Path -> leaf, with the same path whether a container is a tuple, a named tuple or what Orbax made of it."""

    def entry(key: Any) -> str:
        return str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", key))))

    return {"/".join(map(entry, path)): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


def _some(names: list[str], count: int = 5) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more
