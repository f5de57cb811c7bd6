"""Shows attention as a self-contained HTML page with a choice of text, kind, layer and head.

Small maps show all layers and heads at a glance. A focused token shows the numbers of its row. The address of the page
holds what is chosen, so that a link leads to the same view. The page contains its style, script and weights. It does
not access the network, and its content security policy forbids it. The weights are stored as JSON, with enough digits
to represent the float32 values exactly.
"""

from __future__ import annotations

import json
from html import escape

import numpy as np

from attention_research.analysis.attention import Attention, AttentionMap, Pass
from attention_research.analysis.attention_script import SCRIPT, content_hash
from attention_research.analysis.attention_style import STYLE


def page(attention: Attention) -> str:
    """The HTML of the page."""
    policy = f"default-src 'none'; img-src data:; style-src {content_hash(STYLE)}; script-src {content_hash(SCRIPT)}"
    first = attention.passes[0]
    sentences = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in first.sentences.items())
    facts = " · ".join(f"{escape(name)} {escape(value)}" for name, value in attention.facts.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>Attention · {escape(first.text if first.source is None else first.source)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Attention of each token</h1>
<dl class="sentences" id="sentences">{sentences}</dl>
<noscript><p>This page needs JavaScript. Its script is part of the page.</p></noscript>
<div class="controls">
<label for="text">Text <select id="text" autocomplete="off"></select></label>
<label for="kind">Attention <select id="kind" autocomplete="off"></select></label>
<label for="layer">Layer <select id="layer" autocomplete="off"></select></label>
<label for="head">Head <select id="head" autocomplete="off"></select></label>
</div>
<details open>
<summary>All heads at a glance</summary>
<div class="heads"><div id="heads" role="toolbar" aria-label="Layers and heads"></div></div>
</details>
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
arrow keys, to see the weights of a token beside the squares, the largest first. In a small map, a stronger colour is
a larger weight, and negative weights have a colour of their own; choose a map with a click or the arrow keys. The
address of this page changes with what you choose, so that a copied address leads to the same view. “·” marks a piece
that continues a word; &lt;s&gt; and &lt;/s&gt; are the start and the end of the sentence.</p>
<p class="note">Weights of a teacher-forced pass: the decoder reads the text that is chosen above · {facts}</p>
</main>
<script type="application/json" id="data">{_data(attention)}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _data(attention: Attention) -> str:
    """The passes as JSON, with <, > and & escaped, so that the JSON can be embedded in HTML."""
    document = f'{{"passes": [{", ".join(map(_pass, attention.passes))}]}}'
    return document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _pass(one: Pass) -> str:
    names = {"of": one.of, "example": one.example, "source": one.source, "text": one.text}
    return f'{json.dumps(names)[:-1]}, "maps": [{", ".join(map(_map, one.maps))}]}}'


def _map(one: AttentionMap) -> str:
    names = {"title": one.title, "rows": one.rows, "columns": one.columns, "queries": one.queries, "keys": one.keys}
    layers = json.dumps(one.layers.numbers)
    return f'{json.dumps(names)[:-1]}, "layers": {layers}, "weights": {_nested(one.weights.astype("U16"))}}}'


def _nested(numbers: np.ndarray) -> str:
    """A nested JSON list of numbers, which are given as text."""
    return f"[{','.join(numbers if numbers.ndim == 1 else map(_nested, numbers))}]"
