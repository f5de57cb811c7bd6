"""Annotations for the signatures of constructors: ranges of numbers, child sections, and arguments from a parent.

`config.annotations` reads them from the source and enforces the ranges. A child is passed as a `Constructor`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from attention_research.errors import ConfigError

Positive = Annotated[int, "at least 1"]
NonNegative = Annotated[int, "at least 0"]
Seed = Annotated[int, "from 0 to 2147483647"]
PositiveFloat = Annotated[float, "above 0"]
NonNegativeFloat = Annotated[float, "at least 0"]
Rate = Annotated[float, "from 0 to below 1"]


class Child:
    """Annotation of a child section: ``Child["attention"]``, or ``Child["cross_attention", "self_attention"]``.

    The constructor receives the child as a `Constructor`, which it calls with the arguments that only the parent knows
    (``rngs``, a name). Without a default in the signature and without a section in the config, the child is the nearest
    enclosing section with the name of the parameter (or with the second name), if the family defines its kind;
    otherwise, it is the first kind of the family.
    """

    def __class_getitem__(cls, names: str | tuple[str, ...]) -> Any:
        return Annotated[Callable[..., Any], cls.__name__, names]


class Children:
    """Annotation of named child sections: ``Children["evaluation"]``.

    The constructor receives a dict from names to `Constructor`. The config chooses the names, which are part of the
    paths of settings (``evaluations.bleu.split``). The default ``()`` means none.
    """

    def __class_getitem__(cls, family: str) -> Any:
        return Annotated[Mapping[str, Callable[..., Any]], cls.__name__, family]


T = TypeVar("T")

#: Annotation of an argument that only the parent module knows, ``Given[int]``. It is passed with ``rngs``, not set.
Given = Annotated[T, "Given"]


#: The name that a message begins with, and the rest: "num_heads: ...", "stack.kind: ...".
_NAMED = re.compile(r"(?P<name>\w+)(?P<rest>[.:].*)")


@dataclass(frozen=True)
class ConfigPath:
    """The path of a section, for messages of the object that was made from it. Equal to every other one: modules with
    the same settings compute the same wherever they stand.

    >>> ConfigPath("config.model").of("width"), ConfigPath().of("width"), ConfigPath("config.model") == ConfigPath()
    ('config.model.width', 'width', True)
    """

    text: str = field(default="", compare=False)

    def of(self, setting: str) -> str:
        """The path of a setting of the section; its name alone if the path is unknown."""
        return f"{self.text}.{setting}" if self.text else setting


class Constructor:
    """A class with its resolved settings. The parent calls it with the other arguments: ``constructor(rngs=...)``.

    `path` is the section's path in the config. It completes the errors of the class: "num_groups: ..." becomes
    "config.model.self_attention.num_groups: ..." if the section has this setting. "self_attention.kind: ..." becomes
    "config.model.self_attention.kind: ..." in the section of that name and in its parent. An object whose class has an
    attribute `config_path` gets the path, for errors that it raises later.
    """

    def __init__(self, target: Callable[..., Any], settings: dict[str, Any], path: str = ""):
        self.target, self.settings, self.path = target, settings, path

    def __call__(self, **extra: Any) -> Any:
        try:
            made = self.target(**self.settings, **extra)
        except ConfigError as error:
            if (message := self._completed(str(error))) is None:
                raise
            raise ConfigError(message) from error
        if hasattr(type(made), "config_path"):
            made.config_path = ConfigPath(self.path)
        return made

    def _completed(self, message: str) -> str | None:
        """The message with the full path of its setting, or None if the setting is not one of this section."""
        found, above = _NAMED.match(message), self.path.rpartition(".")[0]
        if not self.path or found is None:
            return None
        if found["name"] in self.settings:
            return f"{self.path}.{message}"
        return f"{above}.{message}" if above and self.path == f"{above}.{found['name']}" else None

    def of(self, target: Callable[..., Any], settings: dict[str, Any]) -> Constructor:
        """A constructor of another class, or with other settings, whose errors name this section."""
        return Constructor(target, settings, self.path)

    def __repr__(self) -> str:
        return f"{self.target.__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"
