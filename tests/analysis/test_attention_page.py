"""The page: exact numbers of the model, tokens with any characters, and the same content in a browser."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest

from attention_research.analysis.attention_page import page


def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])["passes"]


def test_the_numbers_are_the_models_to_the_last_bit(awkward):
    passes = data(page(awkward))
    assert [(one["of"], one["text"]) for one in passes] == [(one.of, one.text) for one in awkward.passes]
    pairs = zip(
        [m for one in passes for m in one["maps"]], [m for one in awkward.passes for m in one.maps], strict=True
    )
    for written, one in pairs:
        np.testing.assert_array_equal(np.asarray(written["weights"], np.float32), one.weights)
        assert (tuple(written["queries"]), tuple(written["keys"])) == (one.queries, one.keys)
        assert (written["rows"], written["columns"]) == (one.rows, one.columns)
        assert tuple(written["layers"]) == one.layers.numbers


def test_float32_of_every_size_survives():
    from attention_research.analysis.attention_page import _nested

    values = np.asarray([1e-45, 1.1754944e-38, 3.3e-9, 1e-5, 0.1, 1 / 3, 0.99999994, 1.0, 0.0], np.float32)
    np.testing.assert_array_equal(np.asarray(json.loads(_nested(values.astype("U16"))), np.float32), values)


def test_no_text_opens_or_closes_a_tag(awkward):
    text = page(awkward)
    assert text.count("<script") == 2 and text.count("</script>") == 2 and "<b>" not in text
    assert "<dd>costs $5 &lt;/script&gt; &amp; $6</dd>" in text
    assert "run first &amp; last · step 1,000" in text
    assert "http:" not in text and "https:" not in text


def test_the_content_policy_allows_only_this_style_and_script(awkward):
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
    tiny = lambda w: "<0.0001" if w > 0 else ">-0.0001"
    text = lambda w: "0" if w == 0 else tiny(w) if abs(w) < 0.00005 else f"{w:.4f}"
    order = np.argsort(-weights, kind="stable")
    return [(int(i) + 1, names[i], text(float(weights[i]))) for i in order]


@pytest.mark.slow
def test_the_page_in_a_browser(browser_page, awkward):
    """Selectors, keyboard, pointer. One browser serves all checks, since starting it takes long. The cross-attention is
    that of layers 2 and 4."""
    opened, (cross, own) = browser_page, awkward.passes[0].maps
    active = lambda: opened.evaluate("document.activeElement.textContent")
    said = lambda: opened.locator("#said").inner_text()

    # Initially: cross-attention, the last layer, the mean of its heads, the first row.
    assert opened.evaluate("window.broken") is None
    assert opened.locator("#kind option").all_inner_texts() == [cross.title, own.title]
    assert opened.locator("#rows button").all_inner_texts() == list(cross.queries)
    assert opened.locator("#columns button").all_inner_texts() == list(cross.keys)
    mean = cross.weights[1].astype(np.float64).mean(0)
    assert table(opened) == expected(mean[0], cross.keys)

    # A word that gets the keyboard focus shows its row. Labels name the selectors.
    opened.get_by_role("combobox", name="Layer").select_option("2")
    opened.get_by_role("combobox", name="Head").select_option("3")
    opened.get_by_role("combobox", name="Head").focus()
    for _ in range(3):  # skips the summary of the small maps and the selected map
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
    opened.get_by_role("combobox", name="Attention").select_option("decoder self-attention")
    assert opened.locator("#columns button").all_inner_texts() == list(own.keys)
    assert (
        opened.get_by_role("combobox", name="Head").input_value() == "2"
        and opened.get_by_role("combobox", name="Layer").input_value() == "2"
    )
    assert table(opened) == expected(own.weights[1, 2, 0], own.keys)
    assert [weight for *_, weight in table(opened)] == ["1.0000", "0", "0", "0", "0"]


@pytest.mark.slow
def test_areas_of_squares_are_proportional_to_weights(browser_page, awkward):
    """The painted share of a cell is its weight divided by the largest weight, in a row that is not selected."""
    opened, weights = browser_page, awkward.passes[0].maps[0].weights[1, 0]
    opened.get_by_role("combobox", name="Head").select_option("1")
    share = """([t, s]) => {
      const canvas = document.getElementById("cells"), pen = canvas.getContext("2d"), cell = 24 * canvas.width / 168;
      const { data } = pen.getImageData(s * cell + 2, t * cell + 2, cell - 3, cell - 3);
      let painted = 0;
      for (let i = 0; i < data.length; i += 4) painted += data[i + 3] > 127 && data[i] < 60 ? 1 : 0;
      return painted / (21 * 21) / (cell / 24) ** 2;
    }"""
    for t, s in ((1, 0), (2, 3), (3, 6), (4, 4), np.argwhere(weights == weights[1:].max())[0].tolist()):
        assert opened.evaluate(share, [t, s]) == pytest.approx(weights[t, s] / weights.max(), abs=0.12)


@pytest.mark.slow
def test_negative_weights_are_printed_and_drawn(signed, tmp_path, browse):
    """They were printed as "<0.0001" and not drawn. In small maps they have another colour."""
    (file := tmp_path / "attention.html").write_text(page(signed), encoding="utf-8")
    opened, one = browse(file), signed.passes[0].maps[0]
    opened.get_by_role("combobox", name="Head").select_option("1")
    weights = one.weights[1, 0]
    assert weights.min() < -weights.max() and table(opened) == expected(weights[0], one.keys)
    said = opened.locator("#axes").inner_text()
    assert f"The smallest is {weights.min():.4f}. An empty square is a negative weight." in said
    pixels = """canvas => [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]"""
    small = opened.locator("#heads button").nth(5).locator("canvas").evaluate(pixels)
    small = np.reshape(small, (*weights.shape, 4))
    np.testing.assert_allclose(small[..., 3] / 255, np.abs(weights) / np.abs(weights).max(), atol=0.01)
    assert (small[weights < -0.3, 0] > small[weights < -0.3, 2]).all()  # brown, and the others are blue
    assert (small[weights > 0.1, 0] < small[weights > 0.1, 2]).all()


@pytest.mark.slow
def test_all_heads_at_a_glance(browser_page, awkward):
    """A click and the arrow keys choose a small map. Its opacity shows its weights. The reference has its own maps."""
    opened, (cross, _) = browser_page, awkward.passes[0].maps
    reference = awkward.passes[1].maps[0]
    small = opened.locator("#heads button")
    assert small.count() == 2 * (1 + 3)
    opened.get_by_role("button", name="layer 2, head 3").click()
    assert table(opened) == expected(cross.weights[0, 2, 0], cross.keys)
    opened.keyboard.press("ArrowDown")
    assert table(opened) == expected(cross.weights[1, 2, 0], cross.keys)
    opened.keyboard.press("ArrowRight")  # the last head of its layer
    assert table(opened) == expected(cross.weights[1, 2, 0], cross.keys)
    opened.keyboard.press("Home")
    mean = cross.weights.astype(np.float64).mean(1)
    assert table(opened) == expected(mean[1, 0], cross.keys)
    assert opened.locator("#heads [aria-pressed=true]").get_attribute("title") == "layer 4, mean of all heads"
    alpha = """canvas => [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]
      .filter((_, i) => i % 4 === 3)"""
    painted = np.reshape(small.nth(1).locator("canvas").evaluate(alpha), cross.weights.shape[2:]) / 255
    np.testing.assert_allclose(painted, cross.weights[0, 0] / cross.weights[0, 0].max(), atol=0.01)

    shown = lambda: opened.locator("#sentences").inner_text()
    assert "it <costs> $7 (the decoder reads this)" in shown()
    opened.get_by_role("combobox", name="Text").select_option("reference")
    assert "a <b> $x$ (the decoder reads this)" in shown() and "it <costs> $7" in shown()
    opened.get_by_role("button", name="layer 2, head 3").click()
    assert table(opened) == expected(reference.weights[0, 2, 0], reference.keys)


@pytest.mark.slow
def test_the_address_holds_the_view(browser_page, awkward):
    """A link shows the same view, also after back and forward. A wrong address shows the default view."""
    opened, reference = browser_page, awkward.passes[1].maps
    start = opened.url
    rows = lambda text, kind, layer, head, row: expected(
        awkward.passes[text].maps[kind].weights[layer, head, row], awkward.passes[text].maps[kind].keys
    )
    first = table(opened)
    assert "#" not in start
    opened.get_by_role("button", name="layer 2, head 2").click()
    opened.get_by_role("combobox", name="Text").select_option("reference")
    opened.get_by_role("combobox", name="Attention").select_option("decoder self-attention")
    opened.locator("#rows button").nth(3).click()
    link = opened.url
    assert link.endswith("#text=2&attention=decoder+self-attention&layer=2&head=2&row=4")
    assert table(opened) == rows(1, 1, 1, 1, 3)
    opened.locator("#cells").click(position={"x": 24 * 2 + 9, "y": 24 * 4 + 9})
    assert opened.url.endswith("&row=5&cell=3")
    opened.mouse.move(0, 0)  # otherwise the token under the pointer would be shown
    opened.go_back()
    assert opened.url == link and table(opened) == rows(1, 1, 1, 1, 3)
    opened.go_back()
    opened.go_back()
    assert table(opened) == rows(1, 0, 0, 1, 0)
    opened.go_back()
    assert table(opened) == rows(0, 0, 0, 1, 0)
    opened.go_back()
    assert opened.url == start and table(opened) == first
    for _ in range(4):
        opened.go_forward()
    assert opened.url == link and table(opened) == rows(1, 1, 1, 1, 3)
    assert opened.locator("#rows button[aria-pressed=true]").inner_text() == reference[1].queries[3]

    # The arrow keys change the address without adding history entries.
    entries = opened.evaluate("history.length")
    opened.locator("#rows button").nth(3).focus()
    opened.keyboard.press("ArrowUp")
    opened.wait_for_url("**row=3")
    assert opened.evaluate("history.length") == entries

    def visit(address):
        opened.goto(address)
        opened.reload()

    visit(link)
    assert table(opened) == rows(1, 1, 1, 1, 3)
    visit(f"{start}#text=9&attention=none&layer=0&head=99&row=-1&cell=x&%%%")
    assert table(opened) == first
    visit(f"{start}#column=3&layer=4&head=1&cell=2")
    weights = awkward.passes[0].maps[0].weights[1, 0]
    assert table(opened) == expected(weights[:, 2], awkward.passes[0].maps[0].queries)
