"""Checkpoints of a train state, written by Orbax in the background and verified before they are restored.

Orbax silently casts dtypes, restores a partial state and reads corrupted files. This module therefore compares the
names, shapes and dtypes of all arrays before a restore, and the digest of every file with the digest stored when the
checkpoint was written. A checkpoint is written to a temporary folder, which is then renamed. A checkpoint to delete is
renamed first. The folder of a step is therefore always complete.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp

from attention_research.errors import RunError
from attention_research.parallel import hosts
from attention_research.training import digests
from attention_research.training.ending import has_ended
from attention_research.training.metrics_log import LOSS, Criterion
from attention_research.training.settings import Training
from attention_research.training.writer import WRITING, NotWritten, Writer, names, put_aside

#: Prefix of the folder of a checkpoint that is being deleted.
DELETING = "deleting-"


class OtherModel(RunError):
    """The arrays of a checkpoint do not match the arrays of the model that loads it."""


class Checkpoints:
    """The checkpoints of one workdir, under `checkpoints/<step>`. `settings` decide which are kept (None: all).

    A run keeps the newest checkpoint, the `keep` newest on the schedule (every `checkpoint_every` steps, and the last
    step), and the `keep_best` best by `criterion`. A checkpoint saved at an interruption is deleted after the next
    scheduled one is saved, so an interrupted run ends with the same checkpoints as an uninterrupted run. The others
    are deleted only after `clean` or `save` was called: a reader deletes nothing in the folder of a live run.
    """

    def __init__(
        self,
        workdir: Path,
        settings: Training | None = None,
        report: Callable[[str], None] = lambda line: None,
        criterion: Criterion = LOSS,
    ):
        self.criterion = criterion
        self.workdir, self.folder = workdir, (workdir / "checkpoints").absolute()
        self.settings, self.report = settings, report
        self.deletes = False  # a reader does not hold the lock of the workdir
        self.writer = Writer(self.folder)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except RunError:
            if error is None:  # otherwise the first error is the one to report
                raise

    # Listing

    def steps(self) -> list[int]:
        """The steps of all finished checkpoints."""
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdecimal())

    def scheduled(self) -> list[int]:
        """The steps of the finished checkpoints that are on the schedule of an uninterrupted run."""
        steps, settings = self.steps(), self.settings
        if settings is None:
            return steps
        early = has_ended(self.workdir, settings.stop_at, settings.stop_by, settings.stop_checks)
        last = max(steps, default=0) if early else settings.steps
        return [step for step in steps if step % settings.checkpoint_every == 0 or step == last]

    def latest(self) -> int | None:
        """The step of the newest intact checkpoint, or None. Reports every newer checkpoint as damaged."""
        return next((step for step in reversed(self.steps()) if self.whole(step)), None)

    def whole(self, step: int) -> bool:
        """Whether every file of a checkpoint matches its stored digest. Reports a damaged checkpoint."""
        reason = digests.damage(self.folder / str(step))
        if reason is not None:
            self.report(f"checkpoint {step} in {self.folder} is damaged ({reason}): skipped")
        return reason is None

    def best(self, count: int = 1) -> list[int]:
        """The steps of the `count` best checkpoints by the criterion, best first."""
        costs = self.criterion.costs(self.workdir)
        return sorted(costs.keys() & set(self.steps()), key=lambda step: (costs[step], step))[:count]

    def would_be_kept(self, step: int) -> bool:
        """Whether `step` is among the `keep_best` best steps so far, whether or not it has a checkpoint."""
        assert self.settings is not None
        costs = self.criterion.costs(self.workdir)
        better = [other for other in costs if (costs[other], other) < (costs.get(step, math.inf), step)]
        return step in costs and len(better) < self.settings.keep_best

    # Writing: only by the process that holds the lock of the workdir

    def clean(self) -> int | None:
        """Deletes the unfinished files of a killed process, puts damaged newer checkpoints aside, returns `latest`."""
        self.deletes = True
        for path in [*self.folder.glob(f"*{WRITING}*"), *self.folder.glob(f"{DELETING}*")]:
            shutil.rmtree(path, ignore_errors=True)
        latest = self.latest()
        for step in self.steps():
            if latest is None or step > latest:
                put_aside(self.folder / str(step))
        return latest

    def save(self, step: int, state: Any) -> None:
        """Copies the state and returns. The copy is written to disk while training continues.

        Raises RunError if the start of this write, or the previous write, has failed. Earlier checkpoints are kept.
        """
        self.deletes = True
        self.wait()
        if step in self.steps():
            return
        self._written(lambda: self.writer.save(step, state))

    def check(self) -> None:
        """Raises RunError if the current write has failed. Does not wait for its end."""
        self._written(self.writer.check)

    def wait(self) -> None:
        """Waits until the last checkpoint is written, then deletes those that are not kept. Raises RunError if the
        write has failed."""
        self._written(self.writer.wait)
        if self.deletes and self.settings is not None and hosts.is_first():
            steps, best = self.steps(), self.best(self.settings.keep_best)
            for step in set(steps) - {*steps[-1:], *self.scheduled()[-self.settings.keep :], *best}:
                aside = (self.folder / str(step)).rename(self.folder / f"{DELETING}{step}")
                shutil.rmtree(aside, ignore_errors=True)

    def _written(self, part: Callable[[], None]) -> None:
        try:
            part()
        except NotWritten as error:
            good = self.steps()[-1:]
            raise RunError(
                f"checkpoint {error.step} not written under {self.folder}: {error.reason}; fix this and rerun the same "
                f"command, which continues from step {good[0] if good else 0}"
            ) from None

    # Reading

    def restore(self, step: int, abstract: Any, *, partial: tuple[str, ...] | None = None, some: bool = False) -> Any:
        """The state of `step`, with the shapes, dtypes and shardings of `abstract`.

        With `partial`, only these top-level entries are read. With `some`, the checkpoint may have more arrays in them
        than `abstract`. Raises the same errors as `compare`.
        """
        self.compare(step, abstract, partial=partial, some=some)
        arguments = ocp.args.PyTreeRestore(
            item=abstract,
            restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),
            partial_restore=partial is not None,
        )
        return self.writer.restore(step, arguments)

    def stored(self, step: int) -> dict[str, Any]:
        """Name ("parameters/...", "statistics/...") -> shape and dtype of each array of `step`. Does not read the
        arrays."""
        try:
            return self.writer.stored(step)
        except KeyError:
            raise RunError(f"checkpoint {step} in {self.folder} cannot be read; delete it, or train again") from None

    def compare(self, step: int, abstract: Any, *, partial: tuple[str, ...] | None = None, some: bool = False) -> None:
        """Raises OtherModel with a list of the missing arrays, the unexpected arrays, and those of another shape or
        dtype, if the checkpoint of `step` does not match `abstract`. `partial` and `some` are those of `restore`."""
        stored, wanted = self.stored(step), names(abstract)
        if partial is not None:
            stored = {path: leaf for path, leaf in stored.items() if path.split("/")[0] in partial}
        differ = [
            f"{path} is {tuple(stored[path].shape)} {stored[path].dtype}, wanted {tuple(x.shape)} {x.dtype}"
            for path, x in wanted.items()
            if path in stored and (tuple(stored[path].shape) != tuple(x.shape) or stored[path].dtype != x.dtype)
        ]
        lists = {
            "missing": sorted(wanted.keys() - stored.keys()),
            "unexpected": [] if some else sorted(stored.keys() - wanted.keys()),
            "different": differ,
        }
        if any(lists.values()):
            listed = "; ".join(f"{what}: {_some(paths)}" for what, paths in lists.items() if paths)
            raise OtherModel(f"checkpoint {step} in {self.folder} does not match this model: {listed}")

    def close(self) -> None:
        """Waits for the last write, then ends the threads of Orbax. Raises RunError if the write has failed."""
        try:
            self.wait()
        finally:
            self.writer.close()


def _some(paths: list[str], count: int = 5) -> str:
    more = f" and {len(paths) - count} more" if len(paths) > count else ""
    return ", ".join(paths[:count]) + more
