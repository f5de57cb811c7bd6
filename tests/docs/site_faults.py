"""Faults of a built site: raw markup in visible text, broken links, pages wider than the window.

    make docs && .venv/bin/python tests/docs/site_faults.py build/docs [WIDTH ...]

With widths in pixels each page is also opened in Chromium.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Markup that a reader should not see.
RAW = re.compile(r"\$\$|\\(?:frac|mathrm|begin|sum|sqrt|left)\b|```|\]\(|\{(?:doc|ref|toctree|eval-rst)\}|\*\*\w")
#: Elements whose text is code or is not shown.
UNREAD = ("pre", "code", "script", "style", "math", "title")
#: Pages that Sphinx generates, which are not checked.
LISTS = ("genindex.html", "search.html", "py-modindex.html")


class Page(HTMLParser):
    """The visible text of a page outside code, its ids, and its links."""

    def __init__(self, text: str):
        super().__init__()
        self.text, self.ids, self.links, self._unread = [], set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.update(filter(None, (found.get("id"), found.get("name"))))
        self.links += filter(None, (found.get("href"), found.get("src")))
        if tag in UNREAD:
            self._unread.append(tag)

    def handle_endtag(self, tag):
        if self._unread and self._unread[-1] == tag:
            self._unread.pop()

    def handle_data(self, data):
        if not self._unread:
            self.text.append(data)


def faults(site: Path) -> Iterator[str]:
    """One line for each fault: raw markup, and links within the site."""
    read = cache(lambda file: Page(file.read_text(encoding="utf-8")))
    for file in sorted(site.rglob("*.html")):
        name, page = file.relative_to(site), read(file)
        if name.name in LISTS:
            continue
        for text in page.text:
            if found := RAW.search(text):
                yield f"{name}: raw markup: {' '.join(text[max(0, found.start() - 30) : found.end() + 30].split())}"
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.exists():
                yield f"{name}: dead link: {link}"
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).ids:
                yield f"{name}: no such place: {link}"


def wide(site: Path, width: int) -> Iterator[str]:
    """One line for each page wider than a window of `width` pixels, with the first element that is too wide."""
    from playwright.sync_api import sync_playwright

    first = """() => { const width = document.documentElement.clientWidth;
        if (document.documentElement.scrollWidth <= width) return null;
        const wide = [...document.body.querySelectorAll('*')].find(e => e.getBoundingClientRect().right > width + 1);
        return `${document.documentElement.scrollWidth} pixels: ` + (wide ? wide.outerHTML.slice(0, 80) : ''); }"""
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        for file in sorted(site.rglob("*.html")):
            if 'http-equiv="refresh"' in file.read_text(encoding="utf-8"):
                continue  # the link leads to another page
            page.goto(file.resolve().as_uri())
            if found := page.evaluate(first):
                yield f"{file.relative_to(site)} at {width}: {found}"
        browser.close()


if __name__ == "__main__":
    place, *widths = sys.argv[1:]
    said = [*faults(Path(place)), *(line for width in widths for line in wide(Path(place), int(width)))]
    print("\n".join(said))
    sys.exit(1 if said else 0)
