"""Cells and lines of the catalogue's Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable


def text(of: str) -> str:
    """Prose: nothing in it is markup."""
    return of.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def code(of: str) -> str:
    """A formula, as it is typed."""
    return "`" + of.replace("|", "\\|") + "`"


def link(of: str, path: str) -> str:
    """A link to a file of the repository, from docs/."""
    return f"[{text(of)}](../{path})"


def line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"
