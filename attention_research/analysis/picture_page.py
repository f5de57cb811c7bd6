"""A picture's attention as one self-contained HTML page: choose a word, and see in the picture and in numbers where the
model looked for it.

Picture, weights, style and script are inside; the page asks the network for nothing, and its content policy forbids it
to. A weight is told by how bright its place stays, by the size of the square in it, and as a number.
"""

from __future__ import annotations

import base64
import json
from html import escape

import numpy as np

from attention_research.analysis.attention_page import content_hash
from attention_research.analysis.picture_attention import PictureAttention
from attention_research.analysis.picture_script import SCRIPT, STYLE


def page(attention: PictureAttention) -> str:
    """The page as HTML."""
    from attention_research.data.image_source import encoded

    policy = f"default-src 'none'; img-src data:; style-src {content_hash(STYLE)}; script-src {content_hash(SCRIPT)}"
    picture = base64.b64encode(encoded(attention.image)).decode()
    facts = " · ".join(f"{escape(name)} {escape(value)}" for name, value in attention.facts.items())
    written = escape(" ".join(attention.words))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>Attention · {written}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Where each word looks</h1>
<noscript><p>This page draws with a script of its own; please allow it to run.</p></noscript>
<label for="map">Attention <select id="map" autocomplete="off"></select></label>
<div id="words" role="toolbar" aria-label="The words that were written"></div>
<div class="views">
<div id="picture"><img alt="The picture, described as: {written}" src="data:image/png;base64,{picture}">
<div id="places" aria-hidden="true"></div></div>
<section class="numbers" aria-label="The places of one word">
<p id="said" aria-live="polite"></p>
<table id="numbers">
<caption>Its largest weights</caption>
<thead><tr><th scope="col">row</th><th scope="col">column</th><th scope="col">weight</th></tr></thead>
<tbody></tbody>
</table>
</section>
</div>
<p class="note">The brighter a place and the larger its square, the more weight it has; the area of a square is its
share of the greatest weight. Point at a word, or move with Tab and the arrow keys.</p>
<p class="note">One teacher-forced pass over the picture and what the model wrote · {facts}</p>
</main>
<script type="application/json" id="data">{_data(attention)}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _data(attention: PictureAttention) -> str:
    """Words and maps as JSON in which no tag can open or close; six digits after the point."""
    rounded = lambda weights: np.round(weights.astype(float), 6).tolist()
    maps = [{"title": title, "weights": rounded(weights)} for title, weights in attention.maps]
    document = json.dumps({"words": attention.words, "maps": maps})
    return document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
