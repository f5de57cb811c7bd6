"""Searches over real models: scores of their hypotheses, and arrays that a step may not copy.

`test_transformer.py` compares every variant's steps with its full forward pass, with scanned layers. Here they are also
unrolled.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_model
from attention_research.decoding import BeamSearch, Greedy
from attention_research.layers.structure import abstract

KINDS = {
    "standard": {},
    "relative": {"self_attention": {"kind": "relative", "max_distance": 3}, "positions": {"kind": "none"}},
    "t5": {"self_attention": {"kind": "t5", "num_buckets": 8, "max_distance": 9}, "positions": {"kind": "none"}},
    "linformer": {"self_attention": {"kind": "linformer", "rank": 5}},
    "free_widths": {"head_width": 5, "self_attention": {"kind": "standard", "value_head_width": 7}},
}
#: The searches' length. No other axis of the small models has this size, so that shapes identify the caches.
LENGTH = 11


@pytest.fixture(scope="module")
def source():
    tokens = np.random.default_rng(3).integers(4, 29, (5, 13))
    for row in range(5):
        tokens[row, 13 - 2 * row :] = 0
    return {"tokens": jnp.asarray(tokens, jnp.int32)}


#: One of each kind. The others are slow tests.
QUICK = ("standard-scanned", "t5-unrolled")
CASES = {f"{kind}-{way}": (kind, way == "unrolled") for way in ("scanned", "unrolled") for kind in KINDS}


@pytest.mark.parametrize(
    ("kind", "unroll"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name not in QUICK)) for name, case in CASES.items()],
)
def test_beam_scores_equal_the_full_forward_pass(kind, unroll, small, source):
    """Three prefixes in each row, reordered by the search.

    They are scored again without stepping. A shared vocabulary or small weights would make a random model repeat one
    token.
    """
    structure, parameters = small(**KINDS[kind], vocabulary={"kind": "separate"}, decoder={"unroll": unroll})
    parameters = {name: x if name.endswith("bias") else 3 * x for name, x in parameters.items()}

    @jax.jit
    def both(parameters):
        model = structure.merge(parameters)
        found = BeamSearch(beam_size=3, alpha=0.6, exact="all")(model, source, max_length=LENGTH)
        rows = {"source": jnp.repeat(source["tokens"], 3, 0), "target": found.tokens.reshape(15, LENGTH)}
        values, _ = model.log_likelihood(rows)
        return found, jnp.sum(values["log_likelihood"], 1, where=values["mask"]).reshape(5, 3)

    found, prices = both(parameters)
    assert np.asarray(found.lengths).min() > 0 and len(np.unique(found.tokens)) > 5
    np.testing.assert_allclose(found.log_probabilities, prices, rtol=1e-4)


def loop_bodies(text: str) -> str:
    """The computations that the bodies of a compiled program's while loops reach, as one text."""
    computations = dict(re.findall(r"^(?:ENTRY )?%(\S+) \(.*?\{\n(.*?)^\}", text, re.M | re.S))
    wanted, reached = set(re.findall(r"body=%([\w.-]+)", text)), set()
    while wanted:
        reached.add(name := wanted.pop())
        wanted |= set(re.findall(r"(?:calls|to_apply|body)=%([\w.-]+)", computations[name])) - reached
    return "\n".join(computations[name] for name in sorted(reached))


@pytest.mark.slow
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="reads the program of XLA's CPU backend")
def test_a_step_of_an_unrolled_stack_copies_no_cache(small, source):
    """One position is written in place: no copy or transpose is as large as a layer's cache [5 3 11 4] or memory."""
    structure, parameters = small(encoder={"unroll": True}, decoder={"unroll": True})
    run = jax.jit(lambda p: Greedy()(structure.merge(p), source, max_length=LENGTH))
    body = loop_bodies(run.lower(parameters).compile().as_text())
    assert "dynamic-update-slice" in body
    assert not [line for line in body.splitlines() if re.search(r" (copy|transpose)\(", line) and elements(line) >= 660]


def elements(line: str) -> int:
    """The number of elements of an instruction's result."""
    shape = re.search(r"= \w+\[([\d,]*)\]", line)
    return int(np.prod([int(n) for n in shape[1].split(",") if n])) if shape else 0


#: The models with a table of positions, their positions, and the inputs of decoding.
WIDE = {"width": 12, "num_layers": 2, "num_heads": 3, "feed_forward": {"hidden_width": 17}}
LONGEST = 7
TEXT, IMAGE = {"tokens": jnp.full((2, 5), 6, jnp.int32)}, {"image": jnp.ones((2, 4, 4, 3), jnp.uint8)}
EVOLVED = {"kind": "evolved", "wide_self_attention": {"num_heads": 4, "head_width": 3}}
BOUNDED = {
    **{kind: ({"kind": "transformer", "positions": kind}, TEXT, LONGEST)
       for kind in ("learned", "learned_normed", "sinusoidal", "sinusoidal_halves", "concatenated")},
    "evolved": ({"kind": "transformer", "decoder": EVOLVED}, TEXT, LONGEST),
    "shared": ({"kind": "shared_transformer"}, TEXT, LONGEST),
    "captioner": ({"kind": "transformer_captioner", "features": {"kind": "cnn", "width": 3}}, IMAGE, LONGEST),
    "language model": ({"kind": "transformer_decoder"}, None, LONGEST),
    "source and text": ({"kind": "language_model"}, TEXT, 2 * LONGEST - TEXT["tokens"].shape[1]),
    "prefix": ({"kind": "language_model", "decoder": "prefix"}, TEXT, 2 * LONGEST - TEXT["tokens"].shape[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDED)
def test_decoding_past_a_table_of_positions_is_refused_as_the_full_pass_is(name):
    """The last position would be used for all others."""
    section, source, most = BOUNDED[name]
    pictures = {"side": 4, "channels": 3} if source is IMAGE else {}
    make = build_model({**WIDE, **section}, max_length=LONGEST, vocabulary_size=29, **pictures)
    structure, *arrays = abstract(lambda rngs: make(rngs=rngs))

    def cache(length):
        def start(*arrays):
            model = structure.merge(*arrays)
            return model.start(2, length) if source is None else model.start(model.encode(source), length)

        return jax.eval_shape(start, *arrays)

    cache(most)
    with pytest.raises(ValueError, match=r"^\w+ positions: \d+ tokens, but the table has \d+ rows; set max_length$"):
        cache(most + 1)


def test_without_a_table_of_positions_texts_may_be_longer():
    make = build_model({**WIDE, "kind": "transformer_decoder", "positions": "none"}, max_length=7, vocabulary_size=29)
    structure, *arrays = abstract(lambda rngs: make(rngs=rngs))
    jax.eval_shape(lambda *arrays: structure.merge(*arrays).start(2, 99), *arrays)
