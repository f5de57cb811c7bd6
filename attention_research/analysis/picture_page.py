"""Shows the attention over an image as a self-contained HTML page, for each word in the image and as numbers.

The page contains the image, the weights, its style and its script. It does not access the network, and its content
security policy forbids it. A weight is shown by the brightness of its location, by the size of a square, and as a
number.
"""

from __future__ import annotations

import base64
import json
from html import escape

import numpy as np

from attention_research.analysis.attention_script import content_hash
from attention_research.analysis.picture_attention import PictureAttention
from attention_research.analysis.picture_script import SCRIPT, STYLE


def page(attention: PictureAttention) -> str:
    """The HTML of the page."""
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
<h1>Attention of each word</h1>
<noscript><p>This page needs JavaScript. Its script is part of the page.</p></noscript>
<label for="map">Attention <select id="map" autocomplete="off"></select></label>
<div id="words" role="toolbar" aria-label="The words of the model's output"></div>
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
<p class="note">Brighter places and larger squares have larger weights. The area of a square is proportional to its
weight. Point at a word, or use Tab and the arrow keys.</p>
<p class="note">Weights of one teacher-forced pass over the picture and the model's output · {facts}</p>
</main>
<script type="application/json" id="data">{_data(attention)}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _data(attention: PictureAttention) -> str:
    """Words and maps as JSON with six decimal places, and with <, > and & escaped."""
    rounded = lambda weights: np.round(weights.astype(float), 6).tolist()
    maps = [{"title": title, "weights": rounded(weights)} for title, weights in attention.maps]
    document = json.dumps({"words": attention.words, "maps": maps})
    return document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
