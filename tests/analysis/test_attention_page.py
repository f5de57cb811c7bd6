"""The page: exact numbers of the model, tokens with any characters, and the same content in a browser."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest

from attention_research.analysis.attention_page import page


def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])["maps"]


def test_the_numbers_are_the_models_to_the_last_bit(awkward):
    for written, one in zip(data(page(awkward)), awkward.maps, strict=True):
        np.testing.assert_array_equal(np.asarray(written["weights"], np.float32), one.weights)
        assert (tuple(written["queries"]), tuple(written["keys"])) == (one.queries, one.keys)
        assert (written["rows"], written["columns"]) == (one.rows, one.columns)


def test_float32_of_every_size_survives():
    from attention_research.analysis.attention_page import _nested

    values = np.asarray([1e-45, 1.1754944e-38, 3.3e-9, 1e-5, 0.1, 1 / 3, 0.99999994, 1.0, 0.0], np.float32)
    np.testing.assert_array_equal(np.asarray(json.loads(_nested(values.astype("U16"))), np.float32), values)


def test_no_text_opens_or_closes_a_tag(awkward):
    text = page(awkward)
    assert text.count("<script") == 2 and text.count("</script>") == 2 and "<b>" not in text
    assert '<dd id="source">costs $5 &lt;/script&gt; &amp; $6</dd>' in text
    assert "run first &amp; last · step 1,000" in text
    assert "http:" not in text and "https:" not in text


def test_the_policy_allows_this_style_and_this_script_alone(awkward):
    text = page(awkward)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        inline = re.search(f"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy


@pytest.fixture
def browser_page(awkward, tmp_path, browse):
    """The page, opened."""
    file = tmp_path / "attention.html"
    file.write_text(page(awkward), encoding="utf-8")
    return browse(file)


def table(opened):
    """[(position, token, weight as text)] as shown in the table of numbers."""
    rows = (row.locator("th, td").all_inner_texts() for row in opened.locator("#numbers tbody tr").all())
    return [(int(place), token, weight) for place, token, weight, _ in rows]


def expected(weights, names):
    """The same from the weights themselves, in descending order."""
    text = lambda w: "0" if w == 0 else "<0.0001" if w < 0.00005 else f"{w:.4f}"
    order = np.argsort(-weights, kind="stable")
    return [(int(i) + 1, names[i], text(float(weights[i]))) for i in order]


@pytest.mark.slow
def test_the_page_in_a_browser(browser_page, awkward):
    """Selectors, keyboard, pointer. One browser serves all checks, since starting it takes long."""
    opened, (cross, own) = browser_page, awkward.maps
    active = lambda: opened.evaluate("document.activeElement.textContent")
    said = lambda: opened.locator("#said").inner_text()

    # Initially: cross-attention, the last layer, the mean of its heads, the first row.
    assert opened.evaluate("window.broken") is None
    assert opened.locator("#kind option").all_inner_texts() == [one.title for one in awkward.maps]
    assert opened.locator("#rows button").all_inner_texts() == list(cross.queries)
    assert opened.locator("#columns button").all_inner_texts() == list(cross.keys)
    mean = cross.weights[1].astype(np.float64).mean(0)
    assert table(opened) == expected(mean[0], cross.keys)

    # A word that gets the keyboard focus shows its row. Labels name the selectors.
    opened.get_by_label("Layer").select_option("1")
    opened.get_by_label("Head").select_option("3")
    opened.get_by_label("Head").focus()
    opened.keyboard.press("Tab")
    assert active() == cross.keys[0]
    opened.keyboard.press("Tab")
    assert active() == "The"
    opened.keyboard.press("ArrowDown")
    assert active() == "agree" and table(opened) == expected(cross.weights[0, 2, 1], cross.keys)
    best = expected(cross.weights[0, 2, 1], cross.keys)[0]
    assert said().startswith(f"“agree” (row 2) attends most to “{best[1]}” {best[2]}")
    assert opened.locator("#rows button[aria-pressed=true]").inner_text() == "agree"
    assert "sum 1.000" in opened.locator("#caption").inner_text()
    opened.keyboard.press("End")
    assert active() == "</s>" and table(opened) == expected(cross.weights[0, 2, 4], cross.keys)

    # A word of the other axis shows its column.
    opened.locator("#columns button").nth(5).focus()
    assert table(opened) == expected(cross.weights[0, 2, :, 5], cross.queries)
    assert said().startswith("“·ment” (column 6) is attended most by")

    # The pointer: a token, then a square.
    opened.locator("#rows button").nth(3).hover()
    assert table(opened) == expected(cross.weights[0, 2, 3], cross.keys)
    opened.locator("#cells").hover(position={"x": 24 * 4 + 10, "y": 24 * 2 + 10})
    assert table(opened) == expected(cross.weights[0, 2, 2], cross.keys)
    assert opened.locator("#numbers tr[aria-current=true] th").inner_text() == cross.keys[4]

    # Another kind has its own tokens and weights. The masked entries of a causal row are 0.
    opened.get_by_label("Attention").select_option("decoder self-attention")
    assert opened.locator("#columns button").all_inner_texts() == list(own.keys)
    assert opened.get_by_label("Head").input_value() == "2" and opened.get_by_label("Layer").input_value() == "0"
    assert table(opened) == expected(own.weights[0, 2, 0], own.keys)
    assert [weight for *_, weight in table(opened)] == ["1.0000", "0", "0", "0", "0"]


@pytest.mark.slow
def test_squares_are_as_large_as_their_weights(browser_page, awkward):
    """The painted share of a cell is its weight divided by the largest weight, in a row that is not selected."""
    opened, weights = browser_page, awkward.maps[0].weights[1, 0]
    opened.get_by_label("Head").select_option("1")
    share = """([t, s]) => {
      const canvas = document.getElementById("cells"), pen = canvas.getContext("2d"), cell = 24 * canvas.width / 168;
      const { data } = pen.getImageData(s * cell + 2, t * cell + 2, cell - 3, cell - 3);
      let painted = 0;
      for (let i = 0; i < data.length; i += 4) painted += data[i + 3] > 127 && data[i] < 60 ? 1 : 0;
      return painted / (21 * 21) / (cell / 24) ** 2;
    }"""
    for t, s in ((1, 0), (2, 3), (3, 6), (4, 4), np.argwhere(weights == weights[1:].max())[0].tolist()):
        assert opened.evaluate(share, [t, s]) == pytest.approx(weights[t, s] / weights.max(), abs=0.12)
