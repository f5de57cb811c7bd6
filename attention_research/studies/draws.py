"""Draws the candidates of a search with Optuna, and stores their results in a journal that outlives the process.

Complete, pruned and running trials of the journal count as drawn. A failed trial of the journal is one of two kinds. An
invalid one, whose config does not resolve, does not count. One that ran and failed is run again by the next session, as
a trial marked "again", which does not count a second time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError
from attention_research.studies.axes import Axis, only_values
from attention_research.training.workdir import writing

#: A search ends after this many invalid candidates: if none is valid, or for each valid candidate.
_ALL_INVALID, _INVALID_FOR_EACH = 10, 100
_INVALID, _AGAIN, _FAILED = "invalid", "again", "failed"


class Draws:
    """The candidates of one search.

    `kind` is "random", "tpe", or None for all combinations. `pruner` is a pruner of Optuna.
    """

    def __init__(self, journal: Path, name: str, axes: Mapping[str, Axis], kind: str | None, pruner: Any = None):
        self.optuna = load_optuna()
        self.axes, self.kind = axes, kind
        _end_torn_line(journal)
        backend = _backend(self.optuna, journal)
        self.study = self.optuna.create_study(
            storage=self.optuna.storages.JournalStorage(backend),
            study_name=name,
            load_if_exists=True,
            direction="minimize",
            pruner=pruner or self.optuna.pruners.NopPruner(),
        )

    def ask(self, total: int) -> Iterator[Any]:
        """Yields the Optuna trials to run.

        First come the trials that were running when the last session ended, then those that failed, then new ones until
        `total` candidates are drawn, or all combinations. A trial is drawn only when it is requested, with the results
        known by then.
        """
        for trial in self._in((self.optuna.trial.TrialState.RUNNING,)):
            self.study.sampler = self._sampler(trial.number)
            yield self.optuna.trial.Trial(self.study, trial._trial_id)
        self._again()
        if self.kind is None:
            values = only_values(self.axes)
            for combination in itertools.product(*values.values()):
                self.study.enqueue_trial(dict(zip(values, combination, strict=True)), skip_if_exists=True)
        while (self._waiting() or (self.kind and self.count() < total)) and not self._hopeless():
            self.study.sampler = self._sampler(len(self.study.get_trials(deepcopy=False)))
            yield self.study.ask()

    def settings(self, trial: Any) -> dict[str, str]:
        """Path -> value of an Optuna trial. The same trial always gives the same values."""
        return {path: axis.suggest(trial, path) for path, axis in self.axes.items()}

    def count(self) -> int:
        """The number of candidates drawn, over all sessions."""
        return sum(_INVALID not in trial.user_attrs and _AGAIN not in trial.user_attrs for trial in self._in())

    def drawn(self) -> list[dict[str, str]]:
        """The settings of all valid candidates, without duplicates, in the order in which they were drawn."""
        trials = (trial for trial in self._in() if _INVALID not in trial.user_attrs)
        return [dict(items) for items in dict.fromkeys(map(self._key, trials))]

    def finished(self, trial: Any, cost: float) -> None:
        """Tells Optuna that a trial finished, with its cost."""
        self.study.tell(trial, cost)

    def stopped(self, trial: Any) -> None:
        """Tells Optuna that a trial was stopped early."""
        self.study.tell(trial, state=self.optuna.trial.TrialState.PRUNED)

    def failed(self, trial: Any, line: str) -> None:
        """Tells Optuna that a trial ran and failed."""
        trial.set_user_attr(_FAILED, line)
        self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def invalid(self, trial: Any, line: str) -> None:
        """Tells Optuna that the config of a candidate does not resolve."""
        trial.set_user_attr(_INVALID, line)
        self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def check_some_valid(self) -> None:
        """Raises ConfigError if all candidates drawn are invalid."""
        lines = self._invalid()
        if lines and not self.count():
            raise ConfigError(f"the first {len(lines)} candidates are all invalid, the last: {lines[-1]}")

    def _in(self, states: tuple | None = None) -> list[Any]:
        """The Optuna trials in these states; by default all except waiting ones."""
        found = self.study.get_trials(deepcopy=False, states=states)
        return found if states else [one for one in found if one.state != self.optuna.trial.TrialState.WAITING]

    def _waiting(self) -> bool:
        return bool(self._in((self.optuna.trial.TrialState.WAITING,)))

    def _invalid(self) -> list[str]:
        return [trial.user_attrs[_INVALID] for trial in self._in() if _INVALID in trial.user_attrs]

    def _hopeless(self) -> bool:
        """Whether to stop drawing, because too many candidates are invalid.

        A search over all combinations never stops once some candidates are valid.
        """
        valid = self.count()
        if self.kind is None and valid:
            return False
        return len(self._invalid()) >= (_INVALID_FOR_EACH * valid or _ALL_INVALID)

    def _key(self, trial: Any) -> tuple[tuple[str, str], ...]:
        return tuple((path, axis.text(trial.params[path])) for path, axis in self.axes.items())

    def _again(self) -> None:
        """Enqueues the candidates that ran and failed once more."""
        trials, failed = self._in(), self.optuna.trial.TrialState.FAIL
        told = {self._key(trial) for trial in trials if trial.state != failed}
        for trial in trials:
            if _INVALID not in trial.user_attrs and self._key(trial) not in told:
                told.add(self._key(trial))
                self.study.enqueue_trial(trial.params, user_attrs={_AGAIN: True})

    def _sampler(self, number: int) -> Any:
        """A new sampler for each draw, seeded by the draw's number, so that interruptions do not change the draws."""
        if self.kind == "tpe":
            return self.optuna.samplers.TPESampler(seed=number, constant_liar=True)
        return self.optuna.samplers.RandomSampler(seed=number)


def load_optuna() -> Any:
    """The module optuna, with only errors logged. Raises ConfigError if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("--search: Optuna is missing; pip install 'attention_research[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _backend(optuna: Any, journal: Path) -> Any:
    """Optuna's backend for the journal, without the lock file of Optuna.

    The study's folder is locked by the kernel (`workdir.locked`). A lock file would outlive a killed process, and the
    next one would wait for it, for ever if the path is relative.
    """

    class Free:
        def acquire(self) -> bool:
            return True

        def release(self) -> None:
            pass

    with writing(journal):
        backend: Any = optuna.storages.journal.JournalFileBackend(str(journal), Free())
    append = backend.append_logs

    def append_logs(logs: list[dict[str, Any]]) -> None:
        with writing(journal):
            append(logs)

    backend.append_logs = append_logs
    return backend


def _end_torn_line(journal: Path) -> None:
    """Removes an incomplete last line, left by a process that was killed. Optuna would append to this line."""
    if journal.exists():
        with open(journal, "r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
