"""A picture's attention: the model's numbers, the page in a browser, the strip of pictures, and refused models."""

import base64
import io
import json
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from attention_research.analysis.picture_attention import PictureAttention, of_picture, read_picture
from attention_research.analysis.picture_page import page
from attention_research.analysis.picture_strip import draw
from attention_research.config import ConfigError, build_model
from attention_research.errors import RunError
from attention_research.layers.structure import abstract
from attention_research.tokens import EOS

WORDS = ("a", "</script>", '"red"', "<b>", "dog")


@pytest.fixture(scope="module")
def made():
    """Five difficult words over 2 x 3 places, two maps, and a picture of 4 x 6 pixels."""
    rng = np.random.default_rng(0)
    maps = tuple((title, rng.dirichlet(np.ones(6), 5).reshape(5, 2, 3)) for title in ("attention", "layer 1 <i>"))
    return PictureAttention(rng.integers(0, 256, (4, 6, 3)).astype(np.uint8), WORDS, maps, {"run": "a & b"})


def data(text):
    return json.loads(re.search('<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_the_page_has_the_picture_and_the_numbers(made):
    text = page(made)
    found = data(text)
    assert tuple(found["words"]) == WORDS and [one["title"] for one in found["maps"]] == ["attention", "layer 1 <i>"]
    for one, (_, weights) in zip(found["maps"], made.maps, strict=True):
        np.testing.assert_allclose(one["weights"], weights, atol=5e-7)
    picture = base64.b64decode(re.search(r"data:image/png;base64,([^\"]+)", text)[1])
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(picture))), made.image)
    assert text.count("</script>") == 2 and "a &amp; b" in text and "http" not in text.replace("http-equiv", "")


@pytest.mark.slow
def test_the_page_in_a_browser(made, tmp_path, browse):
    """Keyboard, pointer, selector. A weight is shown by a number and by the size of a square."""
    (tmp_path / "seen.html").write_text(page(made), encoding="utf-8")
    opened = browse(tmp_path / "seen.html")
    weights = made.maps[0][1]

    def rows():
        return [
            tuple(map(float, row.locator("td").all_inner_texts())) for row in opened.locator("#numbers tbody tr").all()
        ]

    def same(one, other):
        return np.allclose(one, other, atol=1e-4)

    def expected(weights):
        order = np.argsort(-weights.ravel(), kind="stable")
        return [(place // 3 + 1, place % 3 + 1, round(float(weights.ravel()[place]), 4)) for place in order]

    assert opened.locator("#words button").all_inner_texts() == list(WORDS) and same(rows(), expected(weights[0]))
    opened.get_by_label("Attention").focus()
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.textContent") == "a"
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    assert opened.evaluate("document.activeElement.textContent") == '"red"' and same(rows(), expected(weights[2]))
    best = expected(weights[2])[0]
    assert f"row {best[0]}, column {best[1]}: {best[2]:.4f}" in opened.locator("#said").inner_text()
    assert opened.locator("#words button[aria-pressed=true]").inner_text() == '"red"'
    opened.keyboard.press("End")
    assert same(rows(), expected(weights[4]))
    opened.locator("#words button").nth(1).hover()
    assert same(rows(), expected(weights[1]))
    opened.get_by_label("Attention").select_option("layer 1 <i>")
    assert same(rows(), expected(made.maps[1][1][1]))
    sizes = opened.evaluate(
        "[...document.querySelectorAll('#places i')].map((i) => i.style.getPropertyValue('--side'))"
    )
    share = made.maps[1][1][1].ravel() / made.maps[1][1][1].max()
    np.testing.assert_allclose([float(size[:-1]) for size in sizes], 100 * np.sqrt(share), atol=0.06)


def test_the_strip_is_a_picture(made, tmp_path):
    draw(made, tmp_path / "seen.png")
    with Image.open(tmp_path / "seen.png") as picture:
        assert picture.size[0] > 3 * picture.size[1] > 0


def test_a_picture_is_read_as_the_model_wants_it(tmp_path):
    Image.fromarray(np.full((30, 10), 200, np.uint8)).save(tmp_path / "grey.png")
    read = read_picture(tmp_path / "grey.png", 12, 3)
    assert read.shape == (12, 12, 3) and read.dtype == np.uint8 and (read[6, 6] == 200).all()
    (tmp_path / "text.png").write_text("no picture")
    for name, reason in (("text.png", "not a picture that can be read"), ("none.png", "no such file")):
        with pytest.raises(ConfigError, match=f"--input=.*{name}: {reason}; give a PNG or JPEG file"):
            read_picture(tmp_path / name, 12, 3)


class Tokenizer:
    def decode(self, rows):
        return [" ".join(f"w{token}" for token in row) for row in rows]


class Trained:
    """Like `training.evaluation.Trained`, for a random model that has written four words."""

    step = 7

    def __init__(self, section):
        section = {**section, "features": {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1}}
        make = build_model(section, side=5, channels=3, max_length=6, vocabulary_size=13)
        self.structure, shapes, statistics = abstract(lambda rngs: make(rngs=rngs))
        rng = np.random.default_rng(1)
        value = lambda x: jnp.asarray(rng.standard_normal(x.shape) * x.shape[-1] ** -0.5, x.dtype)
        self.arrays = {name: value(x) for name, x in shapes.items()}, jax.tree.map(jnp.ones_like, statistics)
        self.trainer, self.data = self, self
        self.tokenizer = Tokenizer()

    def model(self):
        return self.arrays

    def captions(self, images):
        return [[5, 9, 4, 11, EOS]]


TRANSFORMER = {"kind": "transformer_captioner", "width": 12, "num_layers": 2, "num_heads": 3,
               "feed_forward": {"hidden_width": 17}, "encoder": {"positions": {"kind": "none"}}}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "section", [{"kind": "recurrent_captioner", "width": 12}, TRANSFORMER], ids=lambda s: s["kind"]
)
def test_weights_are_the_models(section):
    trained, image = Trained(section), np.random.default_rng(0).integers(0, 256, (5, 5, 3)).astype(np.uint8)
    found = of_picture(trained, image, "a run")
    assert found.words == ("w5", "w9", "w4", "w11") and found.facts["step"] == "7"
    batch = {"image": jnp.asarray(image[None]), "target": jnp.asarray([[5, 9, 4, 11, EOS]])}
    run = jax.jit(lambda model: trained.structure.merge(*model).log_likelihood(batch)[1]["decoder"])
    aux = run(trained.model())
    if "alignment" in aux:
        (one,) = found.maps
        np.testing.assert_allclose(one[1].reshape(4, 9), aux["alignment"][0, :4], rtol=1e-6)
    else:
        last = np.asarray(aux["segment_0"]["cross_attention"]["attention_weights"])[1, 0]
        assert [title for title, _ in found.maps][:2] == ["layer 2, mean of its heads", "layer 2, head 1"]
        np.testing.assert_allclose(found.maps[0][1].reshape(4, 9), last[:, :4].mean(0), rtol=1e-5)
        assert len(found.maps) == 2 * (1 + 3)
    for _, weights in found.maps:
        np.testing.assert_allclose(weights.sum(axis=(1, 2)), 1, atol=1e-5)


@pytest.mark.parametrize("encoder", [{"kind": "perceiver", "num_latents": 9}, {"kind": "perceiver", "num_latents": 6},
                                     {"kind": "slots"}, {"kind": "funnel", "blocks": 2}],
                         ids=["as many latents as places", "latents", "slots", "pooled places"])  # fmt: skip
def test_what_an_encoder_makes_of_the_places_is_not_drawn_as_places(encoder):
    """The decoder attends to latents, slots or pairs of places. The features have 3 x 3 places."""
    trained = Trained({**TRANSFORMER, "encoder": {**encoder, "positions": {"kind": "none"}}})
    with pytest.raises(RunError, match="the decoder of this model has no attention over the picture"):
        of_picture(trained, np.zeros((5, 5, 3), np.uint8), "a run")


def test_places_are_those_of_the_features():
    """A row of six places, not a square."""
    found = of_aux({"alignment": jnp.full((1, 3, 6), 1 / 6)}, grid=(1, 6))
    assert found.maps[0][1].shape == (2, 1, 6) and found.facts["places"] == "1 x 6"


def of_aux(decoder, caption=(5, 9, EOS), grid=(2, 2)):
    """Of a model whose decoder has this aux, for a picture that it describes with this caption."""
    features = lambda image: (jnp.zeros((1, *grid, 3)), {})
    model = SimpleNamespace(log_likelihood=lambda batch: ({}, {"decoder": decoder}), features=features)
    structure = SimpleNamespace(merge=lambda parameters, statistics: model)
    trained = SimpleNamespace(
        captions=lambda images: [list(caption)], trainer=SimpleNamespace(structure=structure), step=7,
        model=lambda: ({}, {}), data=SimpleNamespace(tokenizer=Tokenizer()),
    )  # fmt: skip
    return of_picture(trained, np.zeros((5, 5, 3), np.uint8), "a run")


def test_layers_of_many_segments_are_in_their_order():
    """Layer 3 has no attention over the picture."""
    segment = lambda n: (
        {"cross_attention": {"attention_weights": jnp.full((1, 1, 1, 3, 4), float(n))}} if n != 2 else {}
    )
    hidden = {"hidden": jnp.zeros((1, 1, 3, 5))}
    found = of_aux({f"segment_{n}": {**hidden, **segment(n)} for n in range(1 + 11)})
    heads = [(title, weights[0, 0, 0]) for title, weights in found.maps if "mean" not in title]
    assert heads == [(f"layer {n + 1}, head 1", n) for n in reversed(range(1 + 11)) if n != 2]


def test_an_empty_caption_is_not_a_model_without_attention():
    with pytest.raises(RunError, match="the model writes an empty caption for this picture"):
        of_aux({"alignment": jnp.full((1, 1, 4), 0.25)}, caption=(EOS,))


@pytest.mark.slow
def test_a_model_without_attention_is_refused():
    decoder = {"kind": "fixed_vector", "start": {"kind": "projected"}}
    trained = Trained({"kind": "recurrent_captioner", "width": 12, "decoder": decoder})
    with pytest.raises(RunError, match="the decoder of this model has no attention over the picture"):
        of_picture(trained, np.zeros((5, 5, 3), np.uint8), "a run")
