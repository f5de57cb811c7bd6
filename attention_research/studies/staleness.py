"""Compares a finished trial with what its study would run now: the trial is current, stale, or not comparable.

>>> Stale("the train program changed").note
'stale: the train program changed'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from attention_research.studies import fingerprints, lowering
from attention_research.studies.sources import Sources

if TYPE_CHECKING:
    from attention_research.studies.trials import Trial

#: Kinds of data that read the user's files, which may change without a change of the code.
_FILES = ("files", "text_files", "caption_folder")
_PHRASES = {
    "config": "the config",
    "data": "the data",
    "start": "the initialization",
    "train": "the train program",
    "evaluate": "the evaluation program",
    "decode": "the decoding program",
    "score": "the scoring",
}


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a trial's result, compared with what would run now. `reason` is a phrase for a note."""

    name: ClassVar[str]
    reason: str = ""

    @property
    def note(self) -> str:
        """The state in words."""
        return f"{self.name}: {self.reason}" if self.reason else self.name


class Current(State):
    """The same program, data and config would run now. `reason` names what could not be compared."""

    name = "current"


class Stale(State):
    """A different program, different data or a different config would run now."""

    name = "stale"


class NotComparable(State):
    """The state is unknown. For example, the record holds no program, or was made with another version of JAX."""

    name = "not comparable"


#: The state of a record from before records held programs.
OLD = NotComparable("recorded before programs were fingerprinted")


def state_of(trial: Trial, result: Mapping[str, Any]) -> State:
    """The state of the finished result of a planned trial. Lowers programs in another process if necessary."""
    (state,) = states_of([(trial, result)])
    return state


def states_of(
    pairs: Iterable[tuple[Trial, Mapping[str, Any]]], report: Callable[[str], None] = lambda line: None
) -> list[State]:
    """The state of each finished result of a planned trial. Programs to lower are lowered together, with a report."""
    pairs, sources = list(pairs), Sources()
    quick = [_quickly(trial, result, sources) for trial, result in pairs]
    package = fingerprints.fingerprint() if None in quick else ""
    to_lower = {
        trial.id: list(fingerprints.lowerings(trial.stages, trial.given, result["program"]["platform"], package))
        for (trial, result), state in zip(pairs, quick, strict=True)
        if state is None
    }
    lowered = lowering.lowered([one for runs in to_lower.values() for _, one in runs], report)
    return [
        _compared(trial, result["program"], to_lower[trial.id], lowered, sources) if state is None else state
        for (trial, result), state in zip(pairs, quick, strict=True)
    ]


def _quickly(trial: Trial, result: Mapping[str, Any], sources: Sources) -> State | None:
    """The state if it is known without lowering programs, else None."""
    program = result.get("program")
    if program is None:
        return OLD
    own_files = trial.given is not None and trial.given.get("data", {}).get("kind") in _FILES
    same = program.get("sources") == trial.fingerprint
    if not fingerprints.trains(trial.stages):
        changed = _changed(program, fingerprints.measurements(trial.stages, sources), "measure.")
        return Current() if same or not changed else _stale(changed)
    libraries = {name: program.get(name) for name in fingerprints.LIBRARIES}
    if same and libraries == fingerprints.versions() and not own_files:
        return Current()
    if "platform" not in program:
        return NotComparable("begun before programs were fingerprinted")
    return None


def _compared(
    trial: Trial,
    program: Mapping[str, str],
    runs: Iterable[tuple[str, fingerprints.Lowering]],
    lowered: Mapping[str, Mapping[str, str]],
    sources: Sources,
) -> State:
    """The state from all parts. Parts that do not depend on the version of JAX are compared first."""
    now = {
        **fingerprints.measurements(trial.stages, sources),
        **fingerprints.contents(trial.stages, trial.given, sources=sources),
    }
    unknown = [name for name in program if name.split(".")[-1] == "data" and name not in now]
    blind = [name for name, value in {**now, **program}.items() if value.startswith(fingerprints.UNKNOWN)]
    if changed := [name for name in _changed(program, now) if _is_content(name) and name not in (*unknown, *blind)]:
        return _stale(changed)
    other = [name for name, version in fingerprints.versions().items() if program.get(name) != version]
    if hard := [name for name in other if name in ("jax", "jaxlib")]:
        return NotComparable(f"made with {hard[0]} {program.get(hard[0], 'of another version')}")
    for prefix, one in runs:
        if one.key not in lowered:
            return NotComparable(f"made on {program['platform']}, whose programs are not lowered here")
        now |= {f"{prefix}{name}": value for name, value in lowered[one.key].items()}
    known = {name: value for name, value in program.items() if name not in (*fingerprints.ABOUT, *unknown)}
    blind += [name for name, value in now.items() if value.startswith(fingerprints.UNKNOWN)]
    changed = [name for name in _changed(known, now) if name not in blind]
    if changed and other:
        return NotComparable(f"made with {other[0]} {program.get(other[0])}, and {_phrase(changed[0])} differs")
    if changed:
        return _stale(changed)
    if blind:
        return NotComparable(f"{_phrase(blind[0])} cannot be hashed")
    return Current("the data are not on this machine and were not compared" if unknown else "")


def _is_content(name: str) -> bool:
    parts = name.split(".")
    return parts[0] == "measure" or "score" in parts or parts[-1] in ("config", "data")


def _changed(before: Mapping[str, str], now: Mapping[str, str], prefix: str = "") -> list[str]:
    """The names of the parts that differ, or that only one of the two has."""
    names = [name for name in dict.fromkeys([*before, *now]) if name.startswith(prefix)]
    return [name for name in names if before.get(name) != now.get(name)]


def _stale(changed: list[str]) -> Stale:
    order = [*_PHRASES, *changed]
    first = sorted(changed, key=lambda name: order.index(name.split(".")[-1] if name not in order else name))
    *others, last = dict.fromkeys(map(_phrase, first))
    return Stale(f"{' and '.join([', '.join(others), last] if others else [last])} changed")


def _phrase(name: str) -> str:
    prefix, _, part = name.rpartition(".")
    if prefix == "measure":
        return f"the measurement {part}"
    *run, last = prefix.split(".")
    if last == "score":  # of a further evaluation
        return f"{_PHRASES[last]} of {'.'.join([*run, part])}"
    return f"{_PHRASES[part]}{f' of {prefix}' if prefix else ''}"
