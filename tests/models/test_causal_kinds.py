"""Every kind of causal self-attention in a decoder-only model: causality, decoding, packing, live parameters, and that
the program lowers for a GPU and for a TPU."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from causal_kinds import CAUSAL_KINDS, NOT_CAUSAL
from facts import QUICKLY, assert_alive, moved

from attention_research.config import schema
from attention_research.constraints import MIX_A_ROW_CAUSALLY
from attention_research.registry import FAMILIES
from attention_research.tasks.auxiliary import auxiliary_loss
from attention_research.tokens import BOS, EOS
from tests.tiers import fast_are

#: Two examples of 4 and 5 tokens in a row of 11, the second row with one of 7.
LENGTHS = ((4, 5), (7,))
T, SEEN = 11, 3
#: Fast: a stack whose layers differ and hand over keys.
QUICK = ("cross_layer",)
#: Slow: kinds that differ in what a layer caches, in how they are packed, or in what layers hand over. The others are
#: long. They differ from these within a layer.
SLOW = (
    "standard:grouped", "relative", "t5", "positional", "ring", "branched", "dynamic_convolution", "hyena", "mamba",
    "latent:queries", "sliding_window", "streaming", "sinkhorn", "transformer_xl_memory", "interleaved:states",
    "value_residual", "yoco", "forgetting", "contextual", "path:forgetting", "multi_token", "native_sparse", "indexed",
    "gla", "gated_deltanet", "rwkv7", "log_linear", "random_synthesizer_plus",
)  # fmt: skip
SECTION = {
    "kind": "transformer_decoder", "width": 12, "num_heads": 3, "num_layers": 3, "positions": {"kind": "none"},
    "feed_forward": {"hidden_width": 17},
}  # fmt: skip


def texts():
    """(packed batch, the same examples in rows of their own)."""
    rng, rows = np.random.default_rng(0), len(LENGTHS)
    packed = {name: np.zeros((rows, T), np.int32) for name in ("target", "target_segments", "target_positions")}
    alone = []
    for row, lengths in enumerate(LENGTHS):
        first = 0
        for number, length in enumerate(lengths, start=1):
            tokens = np.append(rng.integers(4, 29, length - 1), EOS)
            place = (row, slice(first, first + length))
            packed["target"][place], packed["target_segments"][place] = tokens, number
            packed["target_positions"][place] = np.arange(length)
            alone.append(np.pad(tokens, (0, T - length)))
            first += length
    return packed, {"target": np.array(alone, np.int32)}


def stepped(model, target):
    """The log-likelihood of each token, decoded one by one."""
    rows, length = target.shape

    def step(carry, token):
        cache, before = carry
        cache, log_p, _ = model.step(cache, before)
        return (cache, token), jnp.take_along_axis(log_p, token[:, None], 1)[:, 0]

    first = (model.start(rows, length + 2), jnp.full((rows,), BOS, jnp.int32))
    return jax.lax.scan(step, first, target.T)[1].T


@partial(jax.jit, static_argnums=0, compiler_options=QUICKLY)
def both_ways(structure, statistics, alone, parameters):
    """(the log-likelihood of each token, decoded one by one; the values of the whole texts)."""
    model = structure.merge(parameters, statistics)
    return stepped(model, alone["target"]), model.log_likelihood(alone)[0]


def facts_of(structure, statistics, packed, alone, packs):
    """parameters -> everything that the test compares, as one program."""
    rows, length = alone["target"].shape

    def seen(model, extra):
        x = model.vocabulary.target(jnp.roll(alone["target"], 1, 1).at[:, 0].set(BOS)) + extra
        hidden, _ = model.decoder(x, jnp.arange(length, dtype=jnp.int32)[None], None)
        return jnp.sum(jnp.sin(hidden[:, SEEN]))

    def loss(p):
        values, aux = structure.merge(p, statistics).log_likelihood(alone)
        extra = auxiliary_loss(aux, values["mask"])
        loss = -jnp.sum(values["log_likelihood"], where=values["mask"])
        return loss if extra is None else loss + extra, values

    def everything(p):
        (_, values), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        model = structure.merge(p, statistics)
        together = model.log_likelihood(packed)[0]["log_likelihood"] if packs else None
        return {
            **values,
            "gradients": gradients,
            "stepped": stepped(model, alone["target"]),
            "packed": together,
            "seen": jax.grad(lambda extra: seen(model, extra))(jnp.zeros((rows, length, 12))),
        }

    return jax.jit(everything, compiler_options=QUICKLY)


def test_every_causal_kind_is_walked():
    assert {name.split(":")[0] for name in CAUSAL_KINDS} == set(FAMILIES["causal_attention"]) - set(NOT_CAUSAL)


@pytest.mark.parametrize("name", fast_are(QUICK, [*CAUSAL_KINDS], slow=SLOW))
def test_a_causal_kind_keeps_the_laws_of_a_decoder(name, small_with_statistics):
    kind = name.split(":")[0]
    section = {**SECTION, "self_attention": {"kind": kind, **CAUSAL_KINDS[name]}}
    structure, parameters, statistics = small_with_statistics(**section)
    packed, alone = (jax.tree.map(jnp.asarray, batch) for batch in texts())
    program = facts_of(structure, statistics, packed, alone, kind not in MIX_A_ROW_CAUSALLY)
    traced = program.trace(parameters)
    assert traced.lower(lowering_platforms=("cuda", "tpu")), "it does not lower for accelerators"
    compiled = traced.lower().compile()
    point = jax.tree.map(np.asarray, compiled(parameters))
    after = jax.tree.map(np.asarray, compiled(moved(parameters, point["gradients"])))
    assert_alive(point, after)
    real = point["mask"]
    for one in (point, after):
        np.testing.assert_allclose(one["stepped"][real], one["log_likelihood"][real], rtol=1e-5, atol=3e-5)
    gradient = point["seen"]
    assert (gradient[:, SEEN + 1 :] == 0).all(), "a position depends on later positions"
    assert (np.abs(gradient[:, : SEEN + 1]).max((0, 2)) > 0).all(), "a position does not depend on earlier positions"
    if kind not in MIX_A_ROW_CAUSALLY:
        together = point["packed"][packed["target"] != 0]
        np.testing.assert_allclose(together, point["log_likelihood"][real], rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize(
    "name", fast_are(["multi_token"], [*CAUSAL_KINDS], slow=["native_sparse", "moba", "selective"])
)
def test_a_causal_kind_decodes_in_bfloat16(name, small_with_statistics):
    """With all heads, and with one key head where the kind has heads of keys."""
    kind, settings = name.split(":")[0], CAUSAL_KINDS[name]
    signature = schema.signature("causal_attention", kind)
    for fewer in ({}, {"num_key_value_heads": 1}) if "num_key_value_heads" in signature else ({},):
        section = {**SECTION, "dtype": "bfloat16", "self_attention": {"kind": kind, **settings, **fewer}}
        structure, parameters, statistics = small_with_statistics(**section)
        alone = jax.tree.map(jnp.asarray, texts()[1])
        one_by_one, values = both_ways(structure, statistics, alone, parameters)
        real = np.asarray(values["mask"])
        ours, theirs = np.asarray(one_by_one)[real], np.asarray(values["log_likelihood"])[real]
        np.testing.assert_allclose(ours, theirs, atol=0.1)
