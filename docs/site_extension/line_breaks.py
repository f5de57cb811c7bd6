"""Line breaks in long names and paths: at their dots, slashes, underscores and equal signs, not inside a word."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

#: Code of at least 16 characters without a space. Sphinx puts each word of code into such an element.
LONG = re.compile(r'(?<=<span class="pre">)[^<\s]{16,}(?=</span>)')
#: A place after which a line may end. Browsers also end lines after hyphens.
PLACE = re.compile(r"(?<=[\w)\]}:])([./_=:])(?=\w)")

#: An option such as --dry-run, which stays on one line.
OPTION = re.compile(r'(?<=<span class="pre">)--?[\w-]+')


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_breaks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_breaks(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = with_breaks(context["body"])


def with_breaks(body: str) -> str:
    """The HTML of a page with `<wbr>` elements in long names, which a search or a copy of the text ignores.

    >>> with_breaks('<span class="pre">attention_research.kernels</span> <span class="pre">a.b</span>')
    '<span class="pre">attention_<wbr>research.<wbr>kernels</span> <span class="pre">a.b</span>'
    """
    body = LONG.sub(lambda name: PLACE.sub(r"\1<wbr>", name[0]), body)
    return OPTION.sub(r'<span class="whole">\g<0></span>', body)
