"""Faults of a built site: raw markup in visible text, broken links, pages wider than the window, faint text.

    make docs && .venv/bin/python tests/docs/site_faults.py build/docs [WIDTH ...] [light] [dark]

With widths in pixels, each page is also opened in Chromium at these widths. With themes, the contrast of its text is
computed in them.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from itertools import chain
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


#: The width of a page, and its first element that is too wide, if it is wider than the window.
TOO_WIDE = """() => { const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return null;
    const wide = [...document.body.querySelectorAll('*')].find(e => e.getBoundingClientRect().right > width + 1);
    return `${document.documentElement.scrollWidth} pixels: ` + (wide ? wide.outerHTML.slice(0, 80) : ''); }"""
#: The first text whose contrast with its background is below that of WCAG 2 AA: 4.5, or 3 for large text.
FAINT = """theme => { document.body.dataset.theme = theme;
    const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d');
    const colours = new Map();
    const read = css => {
        if (!colours.has(css)) {
            canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
            const found = [...canvas.getImageData(0, 0, 1, 1).data];
            colours.set(css, [...found.slice(0, 3), found[3] / 255]);
        }
        return colours.get(css); };
    const over = (top, below) => top.slice(0, 3).map((one, i) => one * top[3] + below[i] * (1 - top[3]));
    const behind = element => {
        if (!element) return read(getComputedStyle(document.documentElement).backgroundColor).slice(0, 3);
        const colour = read(getComputedStyle(element).backgroundColor);
        return colour[3] === 1 ? colour.slice(0, 3) : over(colour, behind(element.parentElement)); };
    const linear = x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
    const light = rgb => rgb.reduce((sum, one, i) => sum + linear(one / 255) * [.2126, .7152, .0722][i], 0);
    const seen = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (seen.has(element) || !texts.currentNode.data.trim() || !element.checkVisibility({visibilityProperty: true}))
            continue;
        seen.add(element);
        const style = getComputedStyle(element), ground = behind(element);
        if (style.clip !== 'auto' || element.closest('svg, script, style')) continue;
        const [a, b] = [light(over(read(style.color), ground)), light(ground)].sort((a, b) => b - a);
        const large = parseFloat(style.fontSize) >= (style.fontWeight >= 700 ? 18.5 : 24);
        if ((a + .05) / (b + .05) < (large ? 3 : 4.5))
            return `contrast ${((a + .05) / (b + .05)).toFixed(1)}: ${element.outerHTML.slice(0, 100)}`; }
    return null; }"""


def opened(site: Path, widths: Sequence[int], themes: Sequence[str]) -> Iterator[str]:
    """One line for each page wider than a window of one of these widths, and for each page with faint text."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        for file in sorted(site.rglob("*.html")):
            if 'http-equiv="refresh"' in file.read_text(encoding="utf-8"):
                continue  # the link leads to another page
            page.goto(file.resolve().as_uri())
            for width in widths:
                page.set_viewport_size({"width": width, "height": 900})
                if found := page.evaluate(TOO_WIDE):
                    yield f"{file.relative_to(site)} at {width}: {found}"
            for theme in themes:
                if found := page.evaluate(FAINT, theme):
                    yield f"{file.relative_to(site)}, {theme}: {found}"
        browser.close()


if __name__ == "__main__":
    place, *options = sys.argv[1:]
    widths, themes = [int(one) for one in options if one.isdecimal()], [one for one in options if not one.isdecimal()]
    count = 0
    for fault in chain(faults(Path(place)), opened(Path(place), widths, themes) if options else ()):
        print(fault, flush=True)
        count += 1
    sys.exit(1 if count else 0)
