"""Annotations for the signatures of constructors: ranges of numbers, child sections, and arguments from a parent.

`config.annotations` reads them from the source and enforces the ranges. A child is passed as a `Constructor`.
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


class Constructor:
    """A class with its resolved settings. The parent calls it with the other arguments: ``constructor(rngs=...)``."""

    def __init__(self, target: Callable[..., Any], settings: dict[str, Any]):
        self.target, self.settings = target, settings

    def __call__(self, **extra: Any) -> Any:
        return self.target(**self.settings, **extra)

    def __repr__(self) -> str:
        return f"{self.target.__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"
