"""Draws of a search: Optuna asked for settings and told what came of them, in a journal that outlives the process.

Of the trials in the journal, what is complete, pruned or running was drawn. A failed one is either invalid (its config
does not resolve: it counts for nothing) or was run and failed: then the next sitting runs it again, as a trial marked
"again", which does not count as another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError
from attention_research.studies.axes import Axis, only_values

#: A search none of whose first candidates is valid is a mistake, and one with so many for each valid one at its end.
_ALL_INVALID, _INVALID_FOR_EACH = 10, 100
_INVALID, _AGAIN, _FAILED = "invalid", "again", "failed"


class Draws:
    """The candidates of one search. `kind` is "random", "tpe" or None: all combinations; `pruner` is Optuna's."""

    def __init__(self, journal: Path, name: str, axes: Mapping[str, Axis], kind: str | None, pruner: Any = None):
        self.optuna = load_optuna()
        self.axes, self.kind = axes, kind
        _end_torn_line(journal)
        backend = self.optuna.storages.journal.JournalFileBackend(str(journal))
        self.study = self.optuna.create_study(
            storage=self.optuna.storages.JournalStorage(backend),
            study_name=name,
            load_if_exists=True,
            direction="minimize",
            pruner=pruner or self.optuna.pruners.NopPruner(),
        )

    def ask(self, total: int) -> Iterator[Any]:
        """Optuna's trials to be run: those that ran when the last sitting ended, those that failed, then new ones until
        `total` were drawn, or all combinations. Each is asked for after what is told of those before it.
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
        """Path -> value of a trial that was asked for; the same every time."""
        return {path: axis.suggest(trial, path) for path, axis in self.axes.items()}

    def count(self) -> int:
        """How many candidates were drawn, in all sittings."""
        return sum(_INVALID not in trial.user_attrs and _AGAIN not in trial.user_attrs for trial in self._in())

    def drawn(self) -> list[dict[str, str]]:
        """The settings of all candidates that could be run, each once, in the order of their drawing."""
        trials = (trial for trial in self._in() if _INVALID not in trial.user_attrs)
        return [dict(items) for items in dict.fromkeys(map(self._key, trials))]

    def finished(self, trial: Any, cost: float) -> None:
        """A trial ran to its end."""
        self.study.tell(trial, cost)

    def stopped(self, trial: Any) -> None:
        """A trial was stopped early."""
        self.study.tell(trial, state=self.optuna.trial.TrialState.PRUNED)

    def failed(self, trial: Any, line: str) -> None:
        """A trial was run and failed."""
        trial.set_user_attr(_FAILED, line)
        self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def invalid(self, trial: Any, line: str) -> None:
        """A candidate's config does not resolve."""
        trial.set_user_attr(_INVALID, line)
        self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def check_some_valid(self) -> None:
        """Raises ConfigError where all that were drawn are invalid."""
        lines = self._invalid()
        if lines and not self.count():
            raise ConfigError(f"the first {len(lines)} candidates are all invalid, the last: {lines[-1]}")

    def _in(self, states: tuple | None = None) -> list[Any]:
        """The trials in these states, by default all that were asked for."""
        found = self.study.get_trials(deepcopy=False, states=states)
        return found if states else [one for one in found if one.state != self.optuna.trial.TrialState.WAITING]

    def _waiting(self) -> bool:
        return bool(self._in((self.optuna.trial.TrialState.WAITING,)))

    def _invalid(self) -> list[str]:
        return [trial.user_attrs[_INVALID] for trial in self._in() if _INVALID in trial.user_attrs]

    def _hopeless(self) -> bool:
        """Whether to draw no more; all combinations are tried once some are valid."""
        valid = self.count()
        if self.kind is None and valid:
            return False
        return len(self._invalid()) >= (_INVALID_FOR_EACH * valid or _ALL_INVALID)

    def _key(self, trial: Any) -> tuple[tuple[str, str], ...]:
        return tuple((path, axis.text(trial.params[path])) for path, axis in self.axes.items())

    def _again(self) -> None:
        """Has what failed asked for once more."""
        trials, failed = self._in(), self.optuna.trial.TrialState.FAIL
        told = {self._key(trial) for trial in trials if trial.state != failed}
        for trial in trials:
            if _INVALID not in trial.user_attrs and self._key(trial) not in told:
                told.add(self._key(trial))
                self.study.enqueue_trial(trial.params, user_attrs={_AGAIN: True})

    def _sampler(self, number: int) -> Any:
        """Made anew for each draw: it depends on the draw's number, not on how often the search was interrupted."""
        if self.kind == "tpe":
            return self.optuna.samplers.TPESampler(seed=number, constant_liar=True)
        return self.optuna.samplers.RandomSampler(seed=number)


def load_optuna() -> Any:
    """Optuna, told to keep to itself. Raises ConfigError where it is missing."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("--search: Optuna is missing; pip install 'attention_research[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _end_torn_line(journal: Path) -> None:
    """Takes away the half line of a process that died while it wrote: Optuna would write on in it."""
    if journal.exists():
        with open(journal, "r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
