"""Shows attention as a self-contained HTML page with a choice of kind, layer and head.

A focused token shows the numbers of its row. The page contains its style, script and weights. It does not access the
network, and its content security policy forbids it. The weights are stored as JSON, with enough digits to represent the
float32 values exactly.
"""

from __future__ import annotations

import json
from html import escape

import numpy as np

from attention_research.analysis.attention import Attention, AttentionMap
from attention_research.analysis.attention_script import SCRIPT, STYLE, content_hash


def page(attention: Attention) -> str:
    """The HTML of the page."""
    policy = f"default-src 'none'; img-src data:; style-src {content_hash(STYLE)}; script-src {content_hash(SCRIPT)}"
    kinds = "".join(f"<option>{escape(one.title)}</option>" for one in attention.maps)
    facts = " · ".join(f"{escape(name)} {escape(value)}" for name, value in attention.facts.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>Attention · {escape(attention.source)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Attention of each token</h1>
<dl class="sentences">
<dt>source</dt><dd id="source">{escape(attention.source)}</dd>
<dt>written</dt><dd id="written">{escape(attention.translation)}</dd>
</dl>
<noscript><p>This page needs JavaScript. Its script is part of the page.</p></noscript>
<div class="controls">
<label for="kind">Attention <select id="kind" autocomplete="off">{kinds}</select></label>
<label for="layer">Layer <select id="layer" autocomplete="off"></select></label>
<label for="head">Head <select id="head" autocomplete="off"></select></label>
</div>
<p id="axes" class="note"></p>
<div class="views">
<section class="map" id="map" aria-label="All weights, as squares">
<div id="grid"><p id="corner"></p><div id="columns" role="toolbar"></div>
<div id="rows" role="toolbar" aria-orientation="vertical"></div><canvas id="cells" aria-hidden="true"></canvas></div>
</section>
<section class="numbers" aria-label="The weights of one token" tabindex="0">
<p id="said" aria-live="polite"></p>
<table id="numbers">
<caption id="caption"></caption>
<thead><tr><th scope="col">place</th><th scope="col" class="text">token</th><th scope="col">weight</th>
<th scope="col" class="text">bar</th></tr></thead>
<tbody></tbody>
</table>
</section>
</div>
<p class="note">The area of a square is proportional to its weight. Point at a token or a square, or use Tab and the
arrow keys, to see the weights of a token beside the squares, the largest first. “·” marks a piece that continues a
word; &lt;s&gt; and &lt;/s&gt; are the start and the end of the sentence.</p>
<p class="note">Weights of one teacher-forced pass over the source and the model's output · {facts}</p>
</main>
<script type="application/json" id="data">{_data(attention)}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _data(attention: Attention) -> str:
    """The maps as JSON, with <, > and & escaped, so that the JSON can be embedded in HTML."""
    document = f'{{"maps": [{", ".join(map(_map, attention.maps))}]}}'
    return document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _map(one: AttentionMap) -> str:
    names = {"rows": one.rows, "columns": one.columns, "queries": one.queries, "keys": one.keys}
    return f'{json.dumps(names)[:-1]}, "weights": {_nested(one.weights.astype("U16"))}}}'


def _nested(numbers: np.ndarray) -> str:
    """A nested JSON list of numbers, which are given as text."""
    return f"[{','.join(numbers if numbers.ndim == 1 else map(_nested, numbers))}]"
