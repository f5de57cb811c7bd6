"""A resolved section, as constraints read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Section(NamedTuple):
    """A resolved section: its full path, family and kind, and its settings.

    `made` builds the object of a section that needs no other arguments, such as the data. It returns None if the
    settings are wrong in themselves, which is reported later.
    """

    path: str
    family: str
    kind: str
    settings: dict[str, Any]
    made: Callable[[], Any] = lambda: None


#: The setting that breaks a constraint, below the path of the section, and what is wrong; None if it holds.
Broken = tuple[str, str] | None


def kind_of(family: str, sections: list[Section]) -> str | None:
    """The kind of the first section of a family, such as the model; None without such a section."""
    return next((section.kind for section in sections if section.family == family), None)


def first_of(family: str, sections: list[Section]) -> Section | None:
    """The first section of a family; None without such a section."""
    return next((section for section in sections if section.family == family), None)


def section_at(path: str, sections: list[Section]) -> Section | None:
    """The section with this path; None without such a section."""
    return next((section for section in sections if section.path == path), None)
