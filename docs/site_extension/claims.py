"""The page of claims on the site: a mark and a colour for each verdict, a link to each claim, and a filter.

docs/claims.md itself is plain Markdown with the same anchors. `static/claims.js` builds the filter; without it the page
shows all claims.
"""

from __future__ import annotations

import html
import re
from typing import Any

from sphinx.application import Sphinx

from attention_research.studies.claims_page import UNJUDGED
from attention_research.studies.study import CONDITION, FAILED, FIGURE, HELD, STATUSES, UNTESTED

PAGE = "docs/claims"
#: Verdict -> the class of its colour, and a mark that shows it without colour.
MARKS = {
    HELD: ("held", "✓"), CONDITION: ("condition", "◐"), FAILED: ("failed", "✗"), UNTESTED: ("untested", "?"),
    **dict.fromkeys((FIGURE, *UNJUDGED), ("untested", "–")),
}  # fmt: skip
VERDICT = "|".join(map(re.escape, (*STATUSES, *UNJUDGED)))
#: A row of a table of claims, and of the table that counts the verdicts.
ANCHOR = r'<a id="(?P<id>[\w-]+)"></a>\[[\w-]+\]\(#[\w-]+\)'
COMMAND = re.compile(r"\| `attention-research reproduce (?P<study>\S+) --scale=(?P<scale>\w+)` \|")
ROW = re.compile(rf"^\| (?P<claim>.+) {ANCHOR} \| (?P<rest>.+) \| (?P<verdict>{VERDICT}) \|$", re.MULTILINE)
COUNT = re.compile(rf"^\| (?P<verdict>{VERDICT}) \| (?P<count>\d+) \|$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True}


def add_script(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if page == PAGE:
        app.add_js_file("claims.js", loading_method="defer")


def badge(verdict: str, text: str | None = None) -> str:
    """The verdict, or a text about it, with its mark and colour."""
    name, mark = MARKS[verdict]
    return f'<span class="verdict {name}">{mark} {html.escape(text or verdict)}</span>'


def marked(text: str) -> str:
    """The text of docs/claims.md for the site."""
    text = ROW.sub(
        lambda row: (
            f'| {row["claim"]} <a id="{row["id"]}" class="permalink" href="#{row["id"]}">{row["id"]}</a> '
            f"| {row['rest']} | {badge(row['verdict'])} |"
        ),
        text,
    )
    text = COMMAND.sub(lambda found: f"| {found['study'].replace('/', '/<wbr>')} at {found['scale']} |", text)
    text = text.replace("| claim | notes | command |", "| claim | notes | study |")
    text = text.replace(
        "the command that tests it", "the study that tests it (`attention-research reproduce STUDY --scale=SCALE`)", 1
    )
    text = COUNT.sub(lambda row: f"| {badge(row['verdict'])} | {row['count']} |", text)
    return text.replace("\n## ", '\n<div id="claims-filter"></div>\n\n## ', 1)
