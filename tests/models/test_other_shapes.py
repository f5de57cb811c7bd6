"""Decoder-only and encoder-only Transformers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.tokens import BOS


@pytest.fixture(scope="module")
def tokens():
    return jnp.asarray(np.random.default_rng(0).integers(4, 29, (3, 11)), jnp.int32)


#: Each kind once. The others are slow tests.
QUICK = ("standard-scanned", "relative-unrolled", "t5-scanned")
CASES = {
    f"{kind}-{way}": (kind, way == "unrolled")
    for way in ("scanned", "unrolled")
    for kind in ("standard", "relative", "t5", "unscaled")
}


@pytest.mark.parametrize(
    ("kind", "unroll"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name not in QUICK)) for name, case in CASES.items()],
)
def test_decoder_only_steps_equal_the_full_forward(small, tokens, kind, unroll):
    sections = {"self_attention": {"kind": kind}, "decoder": {"unroll": unroll}}
    structure, parameters = small(kind="transformer_decoder", **sections)

    @jax.jit
    def both(parameters):
        model = structure.merge(parameters)

        def step(carry, target):
            cache, previous = carry
            cache, log_p, _ = model.step(cache, previous)
            return (cache, target), jnp.take_along_axis(log_p, target[:, None], 1)[:, 0]

        first = (model.start(3), jnp.full((3,), BOS, jnp.int32))
        full = model.log_likelihood({"target": tokens})[0]["log_likelihood"]
        return full, jax.lax.scan(step, first, tokens.T)[1].T

    full, stepped = both(parameters)
    np.testing.assert_allclose(stepped, full, atol=2e-5)


def test_decoder_only_is_causal(small, tokens):
    """Changing token t keeps the log-probabilities of earlier tokens bit for bit, and changes those of later ones."""
    structure, parameters = small(kind="transformer_decoder")
    run = jax.jit(lambda t: structure.merge(parameters).log_likelihood({"target": t})[0]["log_likelihood"])
    before, after = run(tokens), run(tokens.at[:, 6].set(5))
    assert (before[:, :6] == after[:, :6]).all() and (before[:, 7:] != after[:, 7:]).any()


def test_encoder_only_sees_both_sides_and_generates_nothing(small, tokens):
    structure, parameters = small(kind="transformer_encoder")
    model = structure.merge(parameters)
    hidden = jax.jit(lambda t: model.encode({"tokens": t})["hidden"])
    assert (hidden(tokens)[:, 2] != hidden(tokens.at[:, 9].set(5))[:, 2]).any()
    assert not hasattr(model, "start") and not hasattr(model, "step")
    values, _ = jax.jit(model.log_likelihood)({"source": tokens, "target": tokens.at[:, ::2].set(0)})
    assert values["mask"].sum() == 3 * 5 and (values["log_likelihood"] < 0).all()


def test_a_causal_linformer_is_refused_with_the_reason(small_config):
    from attention_research.config import ConfigError

    with pytest.raises(ConfigError, match="cannot be causal"):
        small_config(kind="transformer_decoder", self_attention={"kind": "linformer", "rank": 5})
    with pytest.raises(ConfigError, match=r"model.decoder.self_attention.*cannot be causal"):
        small_config(decoder={"self_attention": {"kind": "linformer", "rank": 5}})


def test_a_linformer_encoder_has_a_standard_decoder(small_config):
    model = small_config(self_attention={"kind": "linformer", "rank": 5}).resolved["model"]
    assert model["encoder"]["self_attention"]["kind"] == model["decoder"]["cross_attention"]["kind"] == "linformer"
    assert model["decoder"]["self_attention"]["kind"] == "standard"
