"""What constructors' signatures are written with: ranges of numbers, child sections, what only a parent knows.

`config.annotations` reads them from the source and enforces the ranges. A child arrives as a `Constructor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

Positive = Annotated[int, "at least 1"]
NonNegative = Annotated[int, "at least 0"]
Seed = Annotated[int, "from 0 to 2147483647"]
PositiveFloat = Annotated[float, "above 0"]
NonNegativeFloat = Annotated[float, "at least 0"]
Rate = Annotated[float, "from 0 to below 1"]


class Child:
    """Annotation of a child section: ``Child["attention"]``, or ``Child["cross_attention", "self_attention"]``.

    The constructor receives the child as a `Constructor`, to be called with what only the parent knows (``rngs``, a
    name). Without a default in the signature and without a section in the config, the child is the nearest enclosing
    section named like the parameter (or like the second name), where that kind is defined in the family; else the
    family's first kind.
    """

    def __class_getitem__(cls, names: str | tuple[str, ...]) -> Any:
        return Annotated[Callable[..., Any], cls.__name__, names]


class Children:
    """Annotation of child sections by name, ``Children["evaluation"]``: the constructor receives a dict of name to
    `Constructor`. The config chooses the names; a path leads to a section under its name (``evaluations.bleu.split``).
    The default ``()`` is none.
    """

    def __class_getitem__(cls, family: str) -> Any:
        return Annotated[Mapping[str, Callable[..., Any]], cls.__name__, family]


T = TypeVar("T")

#: Annotation of what only the parent module knows, ``Given[int]``: no setting; it is passed with ``rngs``.
Given = Annotated[T, "Given"]


class Constructor:
    """A kind with its resolved settings, waiting for what only its parent knows: ``constructor(rngs=...)``."""

    def __init__(self, target: Callable[..., Any], settings: dict[str, Any]):
        self.target, self.settings = target, settings

    def __call__(self, **extra: Any) -> Any:
        return self.target(**self.settings, **extra)

    def __repr__(self) -> str:
        return f"{self.target.__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"
