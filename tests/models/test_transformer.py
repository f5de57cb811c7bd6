"""Properties of Transformers with an encoder and a decoder."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from facts import (
    T_SEEN,
    assert_alive,
    assert_alone_as_in_the_batch,
    assert_causal,
    assert_stepping_is_the_full_forward,
    batch_of,
    facts_of,
    moved,
)  # fmt: skip

from tests.models.causal_kinds import CAUSAL_KINDS
from tests.tiers import fast_are

#: Kinds of attention that encoders, decoders and the attention between them have.
EVERYWHERE = (
    "sink", "softcap", "sigmoid", "query_key_l2", "temperature", "differential", "gated", "sparsemax", "entmax15",
    "entmax", "talking_heads", "length_scaled", "position_scaled",
)  # fmt: skip
#: Models with an encoder and a decoder. A kind of attention that has no form between them is walked in
#: `test_causal_kinds.py` and `test_encoder_kinds.py`, and the parts of the rows of Narang et al. in
#: `test_narang_rows.py`.
VARIANTS = {
    "standard": {},
    "relative": {"self_attention": {"kind": "relative", "max_distance": 3}, "positions": {"kind": "none"}},
    **{
        f"cross_{kind}": {
            "self_attention": {"kind": kind, "max_distance": 3},
            "decoder": {"cross_attention": {"kind": f"cross_{kind}", "max_distance": 3}},
            "positions": {"kind": "none"},
        }
        for kind in ("relative_keys", "relative_bias", "relative_keys_bias")
    },
    "concatenated": {"positions": {"kind": "concatenated"}},
    "learned": {"positions": {"kind": "learned"}},
    "linformer": {"self_attention": {"kind": "linformer", "rank": 5}},
    "linformer_none": {"self_attention": {"kind": "linformer", "rank": 5, "sharing": "none"}},
    "linformer_key_value": {"self_attention": {"kind": "linformer", "rank": 5, "sharing": "key_value"}},
    "linformer_layerwise": {"self_attention": {"kind": "linformer", "rank": 5, "sharing": "layerwise"}},
    **{
        f"{kind}_everywhere": {"self_attention": {"kind": kind, **CAUSAL_KINDS[kind]}, "positions": {"kind": "none"}}
        for kind in EVERYWHERE
    },
    "value_residual": {"self_attention": {"kind": "value_residual"}, "positions": {"kind": "none"}},
    "lightning": {"self_attention": {"kind": "lightning", **CAUSAL_KINDS["lightning"]}, "positions": {"kind": "none"}},
    "separate_vocabulary": {"vocabulary": {"kind": "separate"}},
    "experts_and_a_memory": {
        "encoder": {
            "layout": {
                "kind": "every",
                "interval": 2,
                "feed_forward": {
                    "kind": "switch",
                    "num_experts": 3,
                    "capacity_factor": 3.0,
                    "expert": {"hidden_width": 17},
                },
            }
        },
        "decoder": {
            "layout": {
                "kind": "one",
                "layer": 2,
                "feed_forward": {
                    "kind": "product_key_memory",
                    "num_keys": 5,
                    "key_width": 8,
                    "num_heads": 2,
                    "knn": 3,
                },
            }
        },
    },
    "free_widths": {"head_width": 5, "self_attention": {"kind": "standard", "value_head_width": 7}},
    "reversible": {
        side: {
            "stack": "reversible",
            "steps": tuple(("norm", step, "dropout", "residual") for step in steps),
            "final_norm": True,
        }
        for side, steps in (
            ("encoder", ("self_attention", "feed_forward")),
            ("decoder", ("self_attention", "cross_attention", "feed_forward")),
        )
    },
    "perceiver": {"encoder": {"kind": "perceiver", "num_latents": 5, "blocks": 2, "reads": "each_block"}},
    "slots": {"encoder": {"kind": "slots", "num_slots": 4}},
    "pre_norm": {
        side: {
            "steps": tuple(("norm", s, "dropout", "residual") for s in steps),
            "final_norm": True,
        }
        for side, steps in {
            "encoder": ("self_attention", "feed_forward"),
            "decoder": ("self_attention", "cross_attention", "feed_forward"),
        }.items()
    },
}
#: Further models for packed rows and unrolled stacks.
OTHERS = {
    "t5": {"self_attention": {"kind": "t5", "num_buckets": 8, "max_distance": 9}, "positions": {"kind": "none"}},
    **{kind: {"self_attention": {"kind": kind}, "positions": {"kind": "none"}} for kind in ("alibi", "rotary")},
    "dynamic_convolution": {"self_attention": {"kind": "dynamic_convolution", "kernel_width": 4, "num_filters": 3}},
    "evolved": {
        "self_attention": {"kind": "t5", "num_buckets": 8, "max_distance": 9, "use_bias": False},
        "positions": {"kind": "none"},
        "encoder": {"kind": "evolved"},
        "decoder": {
            "kind": "evolved",
            "wide_self_attention": {"num_heads": 5, "head_width": 4},
            "cross_attention": {"kind": "unscaled", "use_bias": False},
        },
    },
}


@pytest.fixture(scope="module")
def batch():
    return batch_of(np.random.default_rng(0))


QUICK = ("standard", "linformer_layerwise")
#: The others, further attentions and places of the norms, are long.
SLOW = (
    "relative", "cross_relative_keys_bias", "concatenated", "learned", "linformer_none", "sink_everywhere",
    "differential_everywhere", "entmax15_everywhere", "lightning", "separate_vocabulary", "experts_and_a_memory",
    "free_widths", "reversible", "perceiver", "slots",
)  # fmt: skip


@pytest.fixture(scope="module", params=fast_are(QUICK, [*VARIANTS], slow=SLOW))
def points(request, small, batch):
    """The facts at random parameters and after one update."""
    structure, parameters = small(**VARIANTS[request.param])
    look = facts_of(structure, batch, 12)
    first = look(parameters)
    return first, look(moved(parameters, first["gradients"]))


def test_likelihoods_are_proper_and_every_parameter_is_alive(points):
    assert_alive(*points)


def test_decoding_step_by_step_equals_the_full_forward(points):
    for point in points:
        assert_stepping_is_the_full_forward(point)


def test_the_future_has_exactly_zero_gradient(points):
    assert_causal(points[0])


def test_padding_and_batch_size_change_nothing(points, batch):
    assert_alone_as_in_the_batch(points[0], batch)


@pytest.mark.slow
def test_an_unmasked_decoder_predicts_a_token_by_looking_at_it(small, batch):
    """The ablation of the mask: log p(y_t) depends on y_t and on later tokens. With the mask it depends on neither."""

    def reached(**sections):
        structure, parameters = small(**sections)
        model = structure.merge(parameters)
        run = jax.jit(lambda target: model.log_likelihood({**batch, "target": target})[0]["log_likelihood"])
        likelihood = lambda target: run(target)[:, T_SEEN]
        later = batch["target"].at[0, T_SEEN + 1].add(1)
        return float(jnp.abs(likelihood(later) - likelihood(batch["target"]))[0])

    assert reached() == 0.0
    assert reached(decoder={"self_attention": {"kind": "unmasked"}}) > 1e-4


@pytest.mark.parametrize("kind", ["one_sided", pytest.param("one_sided_relative_bias", marks=pytest.mark.slow)])
def test_a_one_sided_encoder_does_not_see_what_follows(kind, small, batch):
    def reached(**sections):
        structure, parameters = small(**sections)
        encode = jax.jit(lambda tokens: structure.merge(parameters).encode({"tokens": tokens})["hidden"])
        later = encode(batch["source"].at[0, T_SEEN + 1].add(1)) - encode(batch["source"])
        return float(jnp.abs(later[0, : T_SEEN + 1]).max()), float(jnp.abs(later[0, T_SEEN + 1 :]).max())

    before, after = reached(encoder={"self_attention": {"kind": kind}})
    assert before == 0.0 and after > 1e-4
    assert reached()[0] > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["standard", *(pytest.param(name, marks=pytest.mark.slow) for name in ("t5", "linformer_layerwise"))]
)
def test_unrolled_and_rematerialised_stacks_equal_the_scan(name, batch, small):
    """The same parameters with the same names give equal losses and gradients, with dropout."""
    key = jax.random.key(5)

    def loss(**sections):
        structure, parameters = small(**{**VARIANTS, **OTHERS}[name], dropout_rate=0.2, **sections)

        def value(p):
            values, _ = structure.merge(p).log_likelihood(batch, key=key)
            return -jnp.sum(values["log_likelihood"], where=values["mask"])

        return jax.jit(jax.value_and_grad(value))(parameters)

    scanned, gradients = loss()
    other, others = loss(encoder={"unroll": True}, decoder={"unroll": True, "remat": True})
    np.testing.assert_allclose(scanned, other, rtol=1e-5)
    for leaf, g in gradients.items():
        np.testing.assert_allclose(g, others[leaf], atol=2e-4 * max(1.0, float(jnp.abs(g).max())), err_msg=leaf)


def test_dropout_needs_a_key_and_differs_by_key(small, batch):
    structure, parameters = small(dropout_rate=0.5)
    run = jax.jit(lambda key: structure.merge(parameters).log_likelihood(batch, key=key)[0]["log_likelihood"])
    none = run(None)
    assert (none == run(None)).all()
    assert (run(jax.random.key(0)) != run(jax.random.key(1))).any() and (run(jax.random.key(0)) != none).any()


def packed(batch):
    """The rows of `batch` in one packed row for the source and one for the target."""
    out = {}
    for side in ("source", "target"):
        rows = [np.asarray(row)[np.asarray(row) != 0] for row in batch[side]]
        out[side] = np.concatenate(rows)[None]
        out[f"{side}_segments"] = np.concatenate([np.full(len(r), i + 1) for i, r in enumerate(rows)])[None]
        out[f"{side}_positions"] = np.concatenate([np.arange(len(r)) for r in rows])[None]
    return {name: jnp.asarray(np.pad(x, ((0, 0), (0, 3))), jnp.int32) for name, x in out.items()}


@pytest.mark.parametrize(
    "name",
    [
        *("standard", "dynamic_convolution"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("relative", "t5", "alibi", "rotary", "learned", "evolved")),
    ],
)
def test_packed_rows_equal_the_examples_apart(name, small):
    batch = batch_of(np.random.default_rng(3), rows=3, s=7, t=5)
    structure, parameters = small(**{**VARIANTS, **OTHERS}[name])
    run = lambda b: jax.jit(lambda b: structure.merge(parameters).log_likelihood(b)[0])(b)
    apart, together = run(batch), run(packed(batch))
    mask = np.asarray(apart["mask"])
    want = np.asarray(apart["log_likelihood"])[mask]
    np.testing.assert_allclose(np.asarray(together["log_likelihood"])[np.asarray(together["mask"])], want, atol=2e-5)


def test_linformer_refuses_packed_rows(small):
    batch = packed(batch_of(np.random.default_rng(3), rows=2, s=5, t=5))
    structure, parameters = small(**VARIANTS["linformer"])
    with pytest.raises(ValueError, match="key mask"):
        structure.merge(parameters).log_likelihood(batch)


def test_without_positions_the_encoder_is_permutation_equivariant(small):
    structure, parameters = small(positions={"kind": "none"})
    encode = jax.jit(lambda tokens: structure.merge(parameters).encode({"tokens": tokens})["hidden"])
    tokens = jnp.asarray(np.random.default_rng(0).integers(4, 29, (2, 11)), jnp.int32)
    order = np.random.default_rng(1).permutation(11)
    np.testing.assert_allclose(encode(tokens[:, order]), encode(tokens)[:, order], atol=2e-5)


def test_linformer_projection_owners(small):
    """Section 4.2: projection matrices for each sharing mode (2 encoder layers, 2 decoder layers, 3 heads)."""
    count = lambda mode: {
        n: x.shape for n, x in small(self_attention={"kind": "linformer", "rank": 5, "sharing": mode})[1].items()
        if "projection" in n or "shared" in n
    }  # fmt: skip
    assert set(count("none").values()) == {(2, 3, 5, 13)} and len(count("none")) == 4
    assert set(count("headwise").values()) == {(2, 5, 13)} and len(count("headwise")) == 4
    assert set(count("key_value").values()) == {(2, 5, 13)} and len(count("key_value")) == 2
    assert count("layerwise") == {"encoder.shared.matrix": (5, 13), "decoder.cross_shared.matrix": (5, 13)}


def test_hidden_states_of_all_layers_are_returned(small, batch):
    structure, parameters = small()
    memory = structure.merge(parameters).encode({"tokens": batch["source"]})
    hidden = memory["aux"]["segment_0"]["hidden"]
    assert hidden.shape == (2, 3, 11, 12)
    np.testing.assert_array_equal(hidden[-1], memory["hidden"])
    weights = memory["aux"]["segment_0"]["self_attention"]["attention_weights"]
    np.testing.assert_allclose(np.asarray(weights.sum(-1)), 1.0, atol=1e-5)


@pytest.mark.slow
def test_bfloat16_computes_in_bfloat16_and_keeps_float32_parameters(small, batch):
    structure, parameters = small(dtype="bfloat16")
    reference, _ = small()
    assert all(x.dtype == jnp.float32 for x in parameters.values())
    model = structure.merge(parameters)
    assert jax.eval_shape(model.encode, {"tokens": batch["source"]})["hidden"].dtype == jnp.bfloat16
    run = lambda structure: jax.jit(lambda p: structure.merge(p).log_likelihood(batch)[0]["log_likelihood"])
    low, full = run(structure)(parameters), run(reference)(parameters)
    assert low.dtype == jnp.float32 and float(jnp.abs(low - full).mean()) < 0.05
