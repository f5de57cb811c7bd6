"""One self-contained page of a study: table, verdicts, pictures, and where every number came from.

Style and pictures are inside the page; it asks the network for nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from attention_research.studies.figures import Figure
from attention_research.studies.results import Results, legend, table
from attention_research.studies.verdicts import Judged

# The browser itself refuses any request of the page.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; }
main { margin: 0 auto; max-width: 92rem; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.scroll { overflow-x: auto; } .scroll:focus { outline: 2px solid #0072b2; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
caption { text-align: left; padding: .3rem 0; color: #444; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #ddd; }
thead th { border-bottom: 2px solid #333; vertical-align: bottom; }
th[scope=row], .text { text-align: left; } .long { white-space: normal; min-width: 14rem; }
img { max-width: 100%; height: auto; } figure { margin: 1rem 0; } figcaption { color: #444; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 0; overflow-wrap: anywhere; } pre, code { font-size: .9rem; }
pre { background: #f4f4f4; padding: .7rem; overflow-x: auto; }
"""


def page(results: Results, judged: Sequence[Judged], figures: Sequence[Figure], commands: Sequence[str]) -> str:
    """The page as HTML. ``commands`` are those that reproduce it."""
    study = results.study
    title = f"{study.name} · {results.scale}"
    parts = [
        f"<h1>{escape(study.title)}</h1>",
        f"<p><strong>{escape(title)}</strong>: {len(results.rows)} rows, {results.seeds} random seed"
        f"{'s' if results.seeds != 1 else ''}.</p>",
        "<h2>Results</h2>",
        _table(table(results), f"Results of {title}"),
        *(f"<p>{escape(line)}</p>" for line in legend(results).splitlines() if line),
    ]
    if judged:
        parts += ["<h2>Claims and verdicts</h2>", _verdicts(judged)]
    if figures:
        parts += ["<h2>Figures</h2>", *map(_figure, figures)]
    parts += ["<h2>Where the numbers come from</h2>", _provenance(results)]
    parts += ["<h2>Commands</h2>", f"<pre>{escape(chr(10).join(commands))}</pre>"]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n<main>\n{chr(10).join(parts)}\n</main>\n</body>\n</html>\n"
    )


def _table(lines: list[list[str]], caption: str) -> str:
    titles, *body = lines
    head = "".join(f'<th scope="col"{_class(title)}>{escape(title)}</th>' for title in titles)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td{_class(t)}>{escape(x).replace('+-', '±')}</td>" for t, x in zip(titles[1:], cells, strict=True))
        + "</tr>\n"
        for name, *cells in body
    )
    return _scrolled(f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>", caption)


def _verdicts(judged: Sequence[Judged]) -> str:
    rows = "".join(
        f'<tr><th scope="row" class="long">{escape(one.claim)}</th><td class="text">{escape(one.status)}</td>'
        f'<td class="text long">{escape(one.verdict.because)}</td></tr>\n'
        for one in judged
    )
    head = "".join(f'<th scope="col" class="text">{name}</th>' for name in ("claim", "verdict", "because"))
    return _scrolled(f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>", "Claims that name this study")


def _scrolled(table_html: str, caption: str) -> str:
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table>\n'
        f"<caption>{escape(caption)}</caption>\n{table_html}\n</table></div>"
    )


def _class(title: str) -> str:
    return ' class="text long"' if title == "notes" else ' class="text"' if title == "row" else ""


def _figure(figure: Figure) -> str:
    data = base64.b64encode(figure.path.read_bytes()).decode()
    alt = escape(figure.alt, quote=True)
    caption = escape(figure.title)
    return f'<figure><img src="data:image/png;base64,{data}" alt="{alt}"><figcaption>{caption}</figcaption></figure>'


def _provenance(results: Results) -> str:
    """What the trials' environments have in common; where they differ, every value."""
    done = [entry.result for entry in results.entries if entry.result]
    facts: dict[str, list[str]] = {}
    for result in done:
        for name, value in (result.get("environment") or {}).items():
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            if text not in facts.setdefault(name.replace("_", " "), []):
                facts[name.replace("_", " ")].append(text)
    facts["configuration hash by row"] = [_hashes(results)] if any(r.get("config_hash") for r in done) else []
    facts["fingerprint of the sources"] = sorted({str(result["fingerprint"]) for result in done})
    facts["computing time"] = [f"{sum(result['seconds'] for result in done) / 60:.1f} minutes over {len(done)} trials"]
    evaluated: list[dict[str, Any]] = [r["stages"]["evaluate"] for r in done if "evaluate" in r["stages"]]
    facts["BLEU signature"] = sorted({r["signature"] for r in evaluated if "signature" in r})
    facts["sentences evaluated"] = sorted({f"{r['sentences']:,}" for r in evaluated if "sentences" in r})
    items = (f"<dt>{escape(name)}</dt><dd>{escape(_some(values))}</dd>" for name, values in facts.items() if values)
    return f"<dl>{''.join(items)}</dl>"


def _some(values: list[str], most: int = 4) -> str:
    return "; ".join(values[:most]) + (f"; and {len(values) - most} more" if len(values) > most else "")


def _hashes(results: Results) -> str:
    first = {e.trial.row: e.result["config_hash"] for e in reversed(results.entries) if e.result}
    return ", ".join(f"{row} {(value or '')[:12]}" for row, value in reversed(first.items()))


def write(path: Path, text: str) -> None:
    """Write the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
