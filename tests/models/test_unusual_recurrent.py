"""Recurrent encoder-decoders, copying models and captioners with settings away from the defaults.

Decoding word by word, on the caches that a beam search repeats and reorders, is the whole pass. Rows are independent of
padding and of each other. The numbers are those of the equations, and every parameter learns.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import ConfigError, build_model, schema
from attention_research.decoding.cache import batch_axes, reorder, repeat
from attention_research.layers.structure import abstract, initializer
from attention_research.models.sequences import source as source_of
from attention_research.tasks.captioning import Captioning
from attention_research.tokens import BOS, EOS, PAD
from tests.models.facts import QUICKLY
from tests.models.recurrent_oracle import captioned, translated
from tests.models.unusual_recurrent import (
    CANCELLED,
    CASES,
    ELSEWHERE,
    KINDS_ONLY,
    REFUSED,
    ROOT,
    UNUSED,
    V,
    parts,
    resolved,
    sections,
)
from tests.tiers import fast_are

#: The lengths of the sources, and of what each model writes.
SOURCES, T = (7, 1, 5), 6
#: The row that is also computed without the others and without padding.
ALONE = 2
#: Longer rows.
MORE = 4
FAST = ("bahdanau-local_predictive", "caption-sca")
#: Cases that differ most from each other. The others are long.
SLOW = (
    "cell-rcnn", "cell-vanilla", "luong-score-concat", "luong-score-cosine", "luong-monotonic", "luong-mocha",
    "luong-location", "at_once-local_monotonic", "at_once-mocha-soft", "at_once-none", "bahdanau-last_state",
    "bahdanau-monotonic-soft", "start-zeros", "start-encoder_state", "fixed_vector-projected", "fixed_vector-backward",
    "latent-independent-cosine", "latent-monotonic-additive", "conv_attention-vanilla", "copy_attention-gru",
    "pointer_generator-rcnn", "pointer_generator-lstm_forget_bias", "caption-hard-cosine", "caption-cell-rcnn",
    "caption-fixed_vector-zeros", "caption-resnet", "transformer-funnel", "transformer-slots", "transformer-decoder",
)  # fmt: skip
COPYING = ("copy_attention", "pointer_generator")
WITH_EQUATIONS = [
    name for name in CASES if CASES[name]["kind"] in ("recurrent", "latent_alignment", "recurrent_captioner")
]
#: The largest error of log p in bfloat16.
CLOSE = 0.1


def batch(name):
    """Sources of 7, 1 and 5 words or pictures, and targets of 6 words."""
    rng = np.random.default_rng(0)
    target = jnp.asarray(rng.integers(EOS + 1, V, (len(SOURCES), T)), jnp.int32)
    if CASES[name]["kind"].endswith("captioner"):
        side, channels = ROOT["side"], ROOT["channels"]
        return {
            "image": jnp.asarray(rng.integers(0, 256, (len(SOURCES), side, side, channels)), jnp.uint8),
            "target": target,
        }
    source = rng.integers(EOS + 1, V, (len(SOURCES), max(SOURCES)))
    for row, length in enumerate(SOURCES):
        source[row, length:] = PAD
    return {"source": jnp.asarray(source, jnp.int32), "target": target}


def alone(rows):
    """One of the rows, with a source without padding and a target with more of it."""
    one = {name: x[ALONE, None] for name, x in rows.items()}
    sources = {"source": one["source"][:, : SOURCES[ALONE]]} if "source" in one else {}
    return {**one, **sources, "target": jnp.pad(one["target"], ((0, 0), (0, MORE)))}


def built(name, **changed):
    """(merge, parameters) of a case at random parameters."""
    make = build_model({**CASES[name], **changed}, **ROOT)
    structure, shapes, statistics = abstract(lambda rngs: make(rngs=rngs))
    if statistics:
        statistics = jax.jit(initializer(lambda rngs: make(rngs=rngs)))(jax.random.key(2))[1]
    rng = np.random.default_rng(1)
    # The running statistics normalize nothing. The states of a deep network would grow with each of its convolutions.
    deep = CASES[name].get("features", {}).get("kind") == "resnet"
    fan = lambda shape: math.prod(shape[:-1]) if deep and len(shape) == 4 else shape[-1]
    drawn = lambda shape: rng.standard_normal(shape) * (0.9 * fan(shape) ** -0.5 if len(shape) > 1 else 0.5)
    value = lambda name, x: jnp.asarray(drawn(x.shape) + name.endswith("scale"), x.dtype)
    return lambda p: structure.merge(p, statistics), {name: value(name, x) for name, x in sorted(shapes.items())}


def stepped(model, rows):
    """(log p of all words [B T V], the alignments) word by word, as a search with two hypotheses decodes.

    The other hypothesis has other words, and the two change places after each step.
    """
    source, count = source_of(rows), len(rows["target"])
    start = lambda source: model.start(model.encode(source), T)
    axes = batch_axes(start, source)
    other = jnp.where(rows["target"] == V - 1, EOS + 1, rows["target"] + 1)
    words = jnp.stack([rows["target"], other], axis=1)
    words = jnp.roll(words, 1, axis=2).at[:, :, 0].set(BOS)
    swap = jnp.tile(jnp.array([[1, 0]]), (count, 1))

    def step(cache, given):
        words, turn = given
        words = jnp.where(turn == 0, words, words[:, ::-1])
        cache, log_p, aux = model.step(cache, words.reshape(-1))
        pick = lambda x: x.reshape(count, 2, *x.shape[1:])[jnp.arange(count), turn]
        return reorder(cache, axes, swap), jax.tree.map(pick, (log_p, aux.get("decoder", {}).get("alignment", log_p)))

    turns = jnp.arange(T) % 2
    found = jax.lax.scan(step, repeat(start(source), axes, 2), (jnp.moveaxis(words, 2, 0), turns))[1]
    return jax.tree.map(lambda x: x.swapaxes(0, 1), found)


def loss(model, rows, key):
    """Hard attention learns by REINFORCE."""
    if getattr(getattr(model, "decoder", None), "reported", ()):
        return Captioning(reinforce=1.0, entropy=0.1).loss(model, rows, key)[0]
    values, _ = model.log_likelihood(rows, key=key)
    return -jnp.sum(values["log_likelihood"] * jnp.linspace(0.5, 1.5, T))


def facts(name):
    """What the tests compare."""
    merge, parameters = built(name)
    low, _ = built(name, dtype="bfloat16")
    rows = batch(name)

    def everything(p):
        model, half = merge(p), low(p)
        likelihood = lambda model, rows: model.log_likelihood(rows)[0]["log_likelihood"]
        values, aux = model.log_likelihood(rows)
        steps, seen = stepped(model, rows)
        cells = model.encode(source_of(rows))["hidden"] if "image" in rows else None
        return {
            "whole": values["log_likelihood"], "mean": values["smooth_log_likelihood"], "steps": steps, "seen": seen,
            "alignment": aux["decoder"].get("alignment"), "cells": cells,
            "alone": likelihood(model, alone(rows))[0, :T],
            "half": likelihood(half, rows), "half_steps": stepped(half, rows)[0],
            "gradients": jax.grad(lambda p: loss(merge(p), rows, jax.random.key(3)))(p),
        }  # fmt: skip

    found = jax.tree.map(np.asarray, jax.jit(everything, compiler_options=QUICKLY)(parameters))
    return {**found, "parameters": parameters, "rows": rows, "name": name}


def of_target(log_p, rows):
    return np.take_along_axis(log_p, np.asarray(rows["target"])[..., None], axis=-1)[..., 0]


@pytest.fixture(scope="module", params=fast_are(FAST, [*CASES], slow=SLOW))
def found(request):
    """The facts of a case, computed once."""
    return facts(request.param)


def test_word_by_word_is_the_whole_text(found):
    np.testing.assert_allclose(np.exp(found["steps"]).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(of_target(found["steps"], found["rows"]), found["whole"], rtol=1e-4, atol=5e-5)
    section = resolved(found["name"])
    if section["kind"] not in COPYING or not section.get("copies", True):
        np.testing.assert_allclose(found["steps"].mean(-1), found["mean"], rtol=1e-4, atol=5e-5)
    if found["alignment"] is not None:
        np.testing.assert_allclose(found["seen"], found["alignment"], rtol=1e-4, atol=1e-5)


def test_padding_and_other_rows_change_nothing(found):
    np.testing.assert_allclose(found["alone"], found["whole"][ALONE], rtol=1e-4, atol=5e-5)


def test_every_parameter_learns(found):
    """Parameters that nothing reads have no gradient at all."""
    gradients = found["gradients"]
    assert all(np.isfinite(g).all() for g in gradients.values())
    dead = {one for one, g in gradients.items() if np.abs(g).max() <= 1e-7 and not one.endswith(CANCELLED)}
    assert dead == {one for one in gradients if one.startswith(UNUSED.get(found["name"], ()))}


def test_bfloat16_is_close_and_its_steps_are_the_whole_text(found):
    error = lambda log_p: np.abs(log_p - found["whole"]).max()
    once, steps = error(found["half"]), error(of_target(found["half_steps"], found["rows"]))
    assert once < CLOSE and steps <= 2 * once + 1e-3


@pytest.mark.parametrize("found", fast_are(FAST, WITH_EQUATIONS, slow={*SLOW} & {*WITH_EQUATIONS}), indirect=True)
def test_the_numbers_are_those_of_the_equations(found):
    """log p of all words and the alignment, for each row alone."""
    section, rows, parameters = resolved(found["name"]), found["rows"], found["parameters"]
    for row, length in enumerate(SOURCES):
        target = [*map(int, rows["target"][row])]
        if "image" in rows:
            log_p, weights = captioned(section, parameters, found["cells"][row], target)
        else:
            log_p, weights = translated(section, parameters, np.asarray(rows["source"])[row, :length], target)
        seen, places = found["seen"][row], weights.shape[1]
        np.testing.assert_allclose(found["steps"][row], log_p, rtol=1e-4, atol=5e-5)
        np.testing.assert_allclose(seen[:, :places], weights, rtol=1e-4, atol=2e-5)
        assert (seen[:, places:] == 0).all()


def test_every_kind_and_setting_has_a_case():
    """A new kind or a new setting needs a line in `unusual_recurrent.py`."""
    kinds, changed = set(), set()
    for name in CASES:
        for family, section in sections("model", resolved(name, dtype="bfloat16")):
            signature = schema.signature(family, section["kind"])
            kinds.add((family, section["kind"]))
            changed |= {(family, section["kind"], one) for one in signature if section[one] != signature[one].default}
    needed = {(family, kind) for family, of in parts().items() for kind in of}
    assert needed - kinds == {*REFUSED}
    settings = {
        (family, kind, name)
        for family, kind in needed
        if family not in KINDS_ONLY
        for name, setting in schema.signature(family, kind).items()
        if not (setting.section and setting.family in ELSEWHERE)
    }
    assert not settings - changed


@pytest.mark.parametrize(("family", "kind"), REFUSED)
def test_the_other_kinds_are_refused(family, kind):
    with pytest.raises(ConfigError, match=REFUSED[family, kind]):
        resolved("transformer-transformer", **{family: {"kind": kind}})
