"""Efficient attention in small models: causality by gradient, limits equal to full attention, losses by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.experiments.lectures.efficient_at_scale import measures as efficient_scale
from attention_research.experiments.lectures.efficient_at_scale.measures import (
    Text,
    held_out,
    maker,
    measure_sizes,
    step_flops,
)
from attention_research.experiments.lectures.efficient_at_scale.models import (
    CAUSAL,
    KINDS,
    CheapAttention,
    TextModel,
    losses,
    mean_loss,
)

CHEAP = {"window": 3, "features": 8, "rank": 3}
SIZES = {"vocabulary_size": 13, "width": 8, "num_layers": 2, "head_width": 4, "length": 7, "cheap": CHEAP}
ROWS = np.random.default_rng(0).integers(0, 13, (2, 8)).astype(np.int32)
TEXT = Text(np.arange(200, dtype=np.int32) % 11, np.arange(90, dtype=np.int32) % 11, 13)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_only_a_masked_model_sees_later_positions(kind):
    attention = CheapAttention(kind, width=8, num_heads=2, length=7, cheap=CHEAP, rngs=nnx.Rngs(0))
    x = jnp.asarray(np.random.default_rng(1).standard_normal((1, 7, 8)), jnp.float32)
    heard = jnp.abs(jax.jit(jax.grad(lambda x: attention(x)[0][0, 4].sum()))(x)).sum(axis=-1)[0]
    assert bool((heard[5:] > 0).all()) == (kind not in CAUSAL) and bool((heard[2:5] > 0).all())
    assert bool(heard[0] > 0) == (kind != "window")  # position 4 sees 1 to 4


def test_a_window_as_wide_as_the_row_is_full_attention():
    wide = {**CHEAP, "window": 7}
    make = lambda kind: CheapAttention(kind, width=8, num_heads=2, length=7, cheap=wide, rngs=nnx.Rngs(0))
    full, window = make("full"), make("window")
    x = jnp.asarray(np.random.default_rng(1).standard_normal((2, 7, 8)), jnp.float32)
    np.testing.assert_allclose(*jax.jit(lambda x: (full(x)[0], window(x)[0]))(x), atol=1e-5)


def test_losses_are_cross_entropies_of_the_targets():
    model = TextModel("full", **SIZES, rngs=nnx.Rngs(0))
    key, rows = jax.random.key(0), jnp.asarray(ROWS)
    found = jax.jit(
        lambda rows: (model(rows[:, :-1]), losses(model, "full", rows, key), mean_loss(model, "full", rows, key))
    )
    logits, each, mean = found(rows)
    logits = np.asarray(logits, np.float64)
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    wanted = -np.take_along_axis(log_p, ROWS[:, 1:, None].astype(int), axis=-1)[..., 0]
    np.testing.assert_allclose(each, wanted, atol=1e-5)
    assert float(mean) == pytest.approx(wanted.mean(), rel=1e-5)


def test_a_masked_model_predicts_hidden_tokens():
    model = TextModel("full_masked", **SIZES, rngs=nnx.Rngs(0))
    run = jax.jit(lambda rows: losses(model, "full_masked", rows, jax.random.key(3)))
    found = run(jnp.asarray(ROWS))
    hidden = np.asarray(jax.random.bernoulli(jax.random.key(3), 0.15, (2, 7)))
    np.testing.assert_array_equal(np.asarray(found) > 0, hidden)
    assert hidden.any()
    changed = np.where(np.pad(hidden, ((0, 0), (0, 1))), (ROWS + 1) % 13, ROWS)  # other hidden tokens, same input
    other = run(jnp.asarray(changed))
    assert not np.allclose(np.asarray(found)[hidden], np.asarray(other)[hidden])


def test_the_test_text_does_not_depend_on_the_row_length():
    run = lambda rows, key: rows[:, 1:].astype(jnp.float32)
    tokens = np.arange(1, 98, dtype=np.int32)
    wanted = float(np.arange(2, 98).mean())
    for length in (4, 12, 96):
        assert held_out(run, tokens, length, 96) == pytest.approx(wanted)


def test_an_updates_products_are_counted():
    make = maker("full", TEXT, (1, 8), 4, {"head_width": 4, "cheap": CHEAP})
    forward = 2 * 3 * 4 * (4 * 8 * 8 + 2 * 8 * 32 + 13 * 8) + 2 * 2 * 3 * 2 * 4 * 4 * 4  # projections, logits; q k, w v
    assert step_flops("full", make, 3, 4) == pytest.approx(3 * forward, rel=0.2)  # backward costs twice that


@pytest.mark.slow
def test_training_learns_a_text_that_repeats(monkeypatch):
    monkeypatch.setattr(efficient_scale, "open_text", lambda *_: TEXT)
    more = {
        "text": "",
        "vocabulary_size": 13,
        "tokenizer": "bpe",
        "model": {"head_width": 4, "cheap": CHEAP},
        "scales": ((1, 8), (1, 16)),
    }
    more |= {"length": 8, "batch_tokens": 64, "steps": 300, "rate": 0.01, "tested": 80, "seed": 0}
    found = measure_sizes(kind="window", **more)
    assert found["losses"][1] < 0.3 < np.log(11) and found["parameters"][0] < found["parameters"][1]
