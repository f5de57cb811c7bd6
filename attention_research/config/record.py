"""A resolved config: what is saved, printed, hashed and compared."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from attention_research.config import resolution
from attention_research.config.annotations import plain, spell
from attention_research.config.entry_points import add_variants
from attention_research.config.errors import ConfigError
from attention_research.config.overrides import Override, overridden

#: Leaves and sections that say how a trial is run and not what it is: they do not change its identity. Where arrays
#: lie, how many trials share a run, and what is written when, in the run's folder.
EXECUTION_LEAVES = (
    "parallel",
    "training.replicas",
    "training.varied",
    "training.log_every",
    "training.checkpoint_every",
    "training.keep",
    "training.keep_best",
)

_ANY: Any = object()
_ABSENT = "(absent)"
#: Settings that came when there were recorded trials, with the value that means what was done before: at that value
#: they are no part of a trial's identity, so that a new setting orphans no record. `name:kind`: a section of that kind.
LATER_LEAVES: dict[str, Any] = {
    "training.accumulation_steps": 1,
    "training.chosen_checkpoint": "last",
    "training.data_seed": None,
    "training.initial": None,
    "training.initial_checkpoint": "last",
    "training.initial_parts": [],
    "training.schedule:inverse_sqrt.ramp_steps": 0,
    "training.optimizer:sgd.weight_decay": 0.0,
    "evaluation.average": 1,
    "evaluation:bleu.near": None,
    "model:transformer.initialization": {"kind": "as_built"},
    **{
        f"model.{part}.{name}": {"kind": kind}
        for part in ("encoder", "decoder")
        for name, kind in (("residual", "plain"), ("layout", "uniform"), ("stack", "layers"))
    },
}


@dataclass(frozen=True)
class Config:
    """``given`` (what was said) and ``resolved`` (what it means), both of JSON's dicts, lists and scalars.

    Two configs are equal when they resolve to the same; ``spec`` is the file and variant that it came from.
    """

    given: dict[str, Any] = field(compare=False)
    resolved: dict[str, Any]
    spec: str = field(default="", compare=False)

    @cached_property
    def hash(self) -> str:
        """12 hexadecimal digits of SHA-256 over the resolved config's canonical JSON."""
        return _digest(self.resolved)

    @cached_property
    def identity(self) -> str:
        """The same less `EXECUTION_LEAVES` and what `LATER_LEAVES` leave out: what a trial is, however it is run."""
        rest = json.loads(json.dumps(self.resolved))  # a copy, in a fifth of deepcopy's time
        left_out = {**dict.fromkeys(EXECUTION_LEAVES, _ANY), **LATER_LEAVES}
        for path, value in left_out.items():
            *sections, leaf = path.split(".")
            node = rest
            for name in sections:
                node = _section(node, name)
            if leaf in node and (value is _ANY or _same(node[leaf], value)):
                del node[leaf]
        return _digest(rest)

    def __hash__(self) -> int:
        return int(self.hash, 16)

    def __str__(self) -> str:
        """One line a leaf, as it would be set on the command line."""
        return "\n".join(f"{path}={spell(value)}" for path, value in flat(self.resolved).items())

    def override(self, overrides: Iterable[Override]) -> Config:
        """This config with more overrides, resolved anew from what was given."""
        return resolve(self.given, overrides, spec=self.spec)

    def to_json(self) -> str:
        """The text of ``config.json``."""
        record = {"spec": self.spec, "hash": self.hash, "given": self.given, "resolved": self.resolved}
        return json.dumps(record, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Config:
        """The config that was saved, as it was: nothing is resolved again."""
        add_variants()
        try:
            record = json.loads(text)
            return cls(given=record["given"], resolved=record["resolved"], spec=record["spec"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"config.json: not a saved config ({type(error).__name__}: {error})") from None


def resolve(given: dict[str, Any], overrides: Iterable[Override] = (), *, spec: str = "") -> Config:
    """The config of a nested dict with overrides set. Raises `ConfigError`, one line with the key's full path."""
    add_variants()
    given = overridden(plain(given), overrides)
    return Config(given=given, resolved=resolution.resolved(given), spec=spec)


def difference(old: Config | dict[str, Any], new: Config | dict[str, Any]) -> list[str]:
    """``path: old -> new``, a line a leaf that differs, in the old one's order."""
    before, after = (flat(c.resolved if isinstance(c, Config) else c) for c in (old, new))
    spelled = lambda leaves, path: spell(leaves[path]) if path in leaves else _ABSENT
    return [
        f"{path}: {spelled(before, path)} -> {spelled(after, path)}"
        for path in dict.fromkeys([*before, *after])
        if path not in before or path not in after or not _same(before[path], after[path])
    ]


def is_newer_setting(line: str) -> bool:
    """Whether a line of `difference` only says that a setting came after the old config, and what it is at now means
    what was done before.

    >>> is_newer_setting("training.chosen_checkpoint: (absent) -> last")
    True
    """
    named = {re.sub(r":\w+", "", path): value for path, value in LATER_LEAVES.items()}
    return line in {f"{path}: {_ABSENT} -> {spell(value)}" for path, value in flat(named).items()}


def flat(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Path -> leaf; items of a tuple of sections under their number."""
    leaves: dict[str, Any] = {}
    for key, value in section.items():
        path = f"{prefix}{key}"
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            value = {str(i): item for i, item in enumerate(value)}
        leaves |= flat(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return leaves


def _section(node: dict[str, Any], name: str) -> dict[str, Any]:
    """The section of this `name`, or `name:kind`; empty where there is none."""
    name, _, kind = name.partition(":")
    section = node.get(name)
    return section if isinstance(section, dict) and kind in ("", section.get("kind")) else {}


def _same(a: Any, b: Any) -> bool:
    return json.dumps(a) == json.dumps(b)  # 1 and true, 1 and 1.0 differ, as in the hash


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
