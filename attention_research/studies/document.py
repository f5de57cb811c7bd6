"""Builds self-contained HTML documents: tables with headers, figures with alternative texts, lists of facts.

Style and figures are embedded. The document makes no network requests, and its content security policy forbids them.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from html import escape

from attention_research.analysis.attention_script import content_hash
from attention_research.studies.figures import Figure

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1a1a1a; --quiet: #444; --rule: #ddd; --block: #f4f4f4; }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181c; --ink: #ececec; --quiet: #b0b0b0; --rule: #3d4148; --block: #22252b; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); }
main { margin: 0 auto; max-width: 92rem; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.scroll { overflow-x: auto; } .scroll:focus, summary:focus { outline: 2px solid #0072b2; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
caption { text-align: left; padding: .3rem 0; color: var(--quiet); }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); }
thead th { border-bottom: 2px solid var(--quiet); vertical-align: bottom; }
th[scope=row], .text { text-align: left; } .long { white-space: normal; min-width: 14rem; vertical-align: top; }
td.long { overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; background: #fff; } figure { margin: 1rem 0; }
figcaption { color: var(--quiet); }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .2rem 1.5rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; } pre, code { font-size: .9rem; }
pre { background: var(--block); padding: .7rem; overflow-x: auto; } summary { cursor: pointer; padding: .3rem 0; }
"""


def document(title: str, parts: Sequence[str], *, style: str = "", script: str = "") -> str:
    """The page with a title and these parts, which are HTML. ``style`` and ``script`` are added to the page."""
    policy = f"{_POLICY}; script-src {content_hash(script)}" if script else _POLICY
    end = f"<script>{script}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n'
        f"<body>\n<main>\n{chr(10).join(parts)}\n</main>\n{end}</body>\n</html>\n"
    )


def grid(
    lines: Sequence[Sequence[str]],
    caption: str,
    *,
    text: Collection[str] = (),
    long: Collection[str] = (),
    languages: Mapping[str, str] | None = None,
) -> str:
    """A table. The first line holds the titles of the columns, and the first column names the rows.

    Columns whose title is in ``text`` are aligned to the left; those in ``long`` also wrap. The others hold numbers.
    ``languages`` maps a title to the language of its cells, if it is not English.
    """
    titles, *body = lines

    def attributes(title: str, *, cell: bool = True) -> str:
        names = [] if title not in {*text, *long} and title != titles[0] else ["text"]
        names += ["long"] if title in long else []
        language = (languages or {}).get(title) if cell else None
        shape = f' class="{" ".join(names)}"' if names else ""
        return shape + (f' lang="{escape(language, quote=True)}"' if language else "")

    head = "".join(f'<th scope="col"{attributes(title, cell=False)}>{escape(title)}</th>' for title in titles)
    wrapped = ' class="long"' if titles[0] in long else ""
    rows = "".join(
        f'<tr><th scope="row"{wrapped}>{escape(name)}</th>'
        + "".join(f"<td{attributes(t)}>{escape(x)}</td>" for t, x in zip(titles[1:], cells, strict=True))
        + "</tr>\n"
        for name, *cells in body
    )
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table>\n'
        f"<caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>"
    )


def picture(figure: Figure) -> str:
    """An embedded figure, with its title as the caption and its alternative text."""
    data = base64.b64encode(figure.path.read_bytes()).decode()
    alt = escape(figure.alt, quote=True)
    caption = escape(figure.title)
    return f'<figure><img src="data:image/png;base64,{data}" alt="{alt}"><figcaption>{caption}</figcaption></figure>'


def facts(said: Mapping[str, str]) -> str:
    """A list of names and their values. Empty values are left out.

    >>> facts({"parameters": "1,842,176", "note": ""})
    '<dl><dt>parameters</dt><dd>1,842,176</dd></dl>'
    """
    items = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in said.items() if value)
    return f"<dl>{''.join(items)}</dl>"


def commands(lines: Sequence[str]) -> str:
    """A block of command lines."""
    return f"<pre>{escape(chr(10).join(lines))}</pre>"
