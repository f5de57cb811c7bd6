"""The sidebar of pages outside the table of contents: pages of modules and of source files.

Sphinx computes the table of contents for each page, which takes half a second, and Furo prints it whole. These pages
share that of one listed page, the page of their package or docs/api, without the pages below the other entries.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: sidebar.cache_clear())
    app.connect("html-page-context", share, priority=400)  # before Furo
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def share(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Replaces the table of contents of a page that is not listed."""
    if (home := listed(page)) is not None:
        folder = os.path.dirname(page)
        context["toctree"] = lambda **options: sidebar(app, home, folder)


def listed(page: str) -> str | None:
    """The listed page whose sidebar a page shares, or None if the page is listed itself.

    >>> listed("docs/api/kernels.masks"), listed("source/configs/a.py"), listed("docs/api/kernels")
    ('docs/api/kernels', 'docs/api', None)
    """
    folder, _, name = page.rpartition("/")
    if folder == "docs/api" and "." in name:
        return f"docs/api/{name.split('.')[0]}"
    return "docs/api" if page.startswith("source/") else None


@cache
def sidebar(app: Sphinx, home: str, folder: str) -> str:
    """The table of contents of a listed page, with links from a folder."""
    text = app.builder._get_local_toctree(home, collapse=True, titles_only=True, maxdepth=-1, includehidden=True)
    return relative(text, home, folder)


def relative(text: str, home: str, folder: str) -> str:
    """Changes the links of a page to links from another folder."""
    there = Path(home).parent

    def moved(path: str) -> str:
        return os.path.relpath(there / path, folder) if path else os.path.relpath(f"{home}.html", folder)

    parts = text.split('href="')
    ends = (part.partition('"') for part in parts[1:])
    return parts[0] + "".join(
        f'href="{path if "://" in path else moved(path.removeprefix("#"))}"{rest}' for path, _, rest in ends
    )
