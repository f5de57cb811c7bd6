"""A resolved section, as constraints read it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Section(NamedTuple):
    """A resolved section: its full path, family and kind, and its settings."""

    path: str
    family: str
    kind: str
    settings: dict[str, Any]


#: The setting that breaks a constraint, below the path of the section, and what is wrong; None if it holds.
Broken = tuple[str, str] | None


def kind_of(family: str, sections: list[Section]) -> str | None:
    """The kind of the first section of a family, such as the model; None without such a section."""
    return next((section.kind for section in sections if section.family == family), None)
