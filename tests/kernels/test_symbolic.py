"""Every mechanism takes the symbolic lengths of `jax.export` or refuses them in one line that names the axis."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from attention_research.kernels import dot_product_attention, explain_implementation
from attention_research.kernels.variants import sigmoid_attention
from tests.catalogue import Mechanism, mechanisms

#: The tests' run-time checks would refuse symbolic sizes, since the annotations say int.
pytestmark = pytest.mark.usefixtures("unchecked")
#: Mechanisms that cut a length into blocks, chunks, buckets or log2 rounds, or have a table for one length.
REFUSES = {
    "additive_scores_in_chunks", "bigbird", "block_local", "block_local_causal", "block_local_strided", "blockwise",
    "causal", "convolutional_copy_attention", "factorized_dense_synthesizer", "linear_attention_causal",
    "linformer_convolution", "linformer_max_pooling", "linformer_mean_pooling", "lsh_attention",
    "lsh_attention_causal", "monotonic_recursive", "performer_causal", "sinkhorn", "sinkhorn_causal",
    "indexed", "moba", "native_sparse", "path", "retention", "gated_linear_attention", "generalized_delta_rule",
    "selective_scan",
    "delta_rule", "gated_delta_rule", "kimi_delta_attention", "log_linear", "mlstm",
    "normalized_linear_attention", "long_convolution",
    "sliding_window", "sliding_window_causal", "sliding_window_own_global_projections", "structural_depths",
    "structural_distances", "transformer_xl", "transformer_xl_without_memory",
}  # fmt: skip
#: The caller splits their inputs into the parts of the devices.
APART = {"ring", "causal_ring"}
#: Exported and compared at other lengths in the fast tier. The slow tier has all mechanisms.
QUICK = {"reference", "causal_shaw"}


def lengths(mechanism: Mechanism) -> set[str]:
    return {axis for name in mechanism.inputs for axis in mechanism.axes(name)} & {"T", "S"}


def open_shapes(mechanism: Mechanism) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of the mechanism's arrays, with symbolic T and S."""
    sizes = dict(zip(("T", "S"), export.symbolic_shape("t, s"), strict=True))
    shapes = {}
    for name, array in mechanism.arrays().items():
        axes = mechanism.axes(name) if mechanism.kind(name) != "key" else ()
        shape = [sizes.get(axis, size) for axis, size in zip(axes, array.shape, strict=True)]
        shapes[name] = jax.ShapeDtypeStruct(tuple(shape), array.dtype)
    return shapes


WALKED = [one for one in mechanisms() if lengths(one) and one.name not in APART]


@pytest.mark.parametrize(
    "mechanism",
    [pytest.param(one, id=one.name, marks=[] if one.name in QUICK | REFUSES else pytest.mark.slow) for one in WALKED],
)
def test_a_mechanism_takes_symbolic_lengths_or_refuses_them(mechanism):
    program = lambda: export.export(jax.jit(mechanism.call))(open_shapes(mechanism))
    if mechanism.name not in REFUSES:
        program()
        return
    with pytest.raises(ValueError) as caught:
        program()
    assert re.search(r"\baxis [A-Z]\w*\b.*\b(expected|symbolic)\b", str(caught.value)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(one, id=one.name, marks=[] if one.name in QUICK else pytest.mark.slow)
        for one in WALKED
        if one.name not in REFUSES
    ],
)
def test_one_program_is_right_at_two_lengths(mechanism):
    program = export.export(jax.jit(mechanism.call))(open_shapes(mechanism))
    for larger in ({}, {"T": 17, "S": 19}):
        inputs = mechanism.arrays({axis: size for axis, size in larger.items() if axis not in mechanism.sizes})
        for got, want in zip(program.call(inputs), jax.jit(mechanism.call)(inputs), strict=True):
            np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-5)


def test_the_bias_of_sigmoid_attention_follows_the_length():
    keys, *_ = export.symbolic_shape("s")
    shape = jax.ShapeDtypeStruct((2, keys, 3, 5), jnp.float32)
    attend = jax.jit(lambda x: sigmoid_attention(x, x, x, is_causal=True))
    program = export.export(attend)(shape)
    for length in (7, 11):
        x = jnp.float32(np.random.default_rng(length).standard_normal((2, length, 3, 5)))
        np.testing.assert_allclose(program.call(x), attend(x), atol=1e-5)


def test_the_reference_is_chosen_and_the_others_say_why_not():
    rows, queries, keys = export.symbolic_shape("b, t, s")
    query = jax.ShapeDtypeStruct((rows, queries, 4, 8), jnp.float32)
    key = jax.ShapeDtypeStruct((rows, keys, 2, 8), jnp.float32)
    assert explain_implementation(query, key, key).implementation == "reference"
    assert explain_implementation(query, key, key, platform="tpu").reason == "symbolic sizes: b rows of t x s scores"
    for name in ("blockwise", "pallas", "splash"):
        message = f"implementation='{name}': axis B of query: expected a number, got the symbolic size b"
        with pytest.raises(ValueError, match=message):
            explain_implementation(query, key, key, implementation=name)


@pytest.mark.slow
def test_masks_windows_lengths_and_gradients_at_any_size():
    rows, queries, keys = export.symbolic_shape("b, t, s")

    def loss(query, key, mask, lengths):
        """Causality and the window are aligned bottom-right."""
        output = dot_product_attention(
            query, key, key, mask=mask, is_causal=True, local_window_size=(3, 0), key_value_seq_lengths=lengths,
            query_offset=key.shape[1] - query.shape[1],
        )  # fmt: skip
        return jnp.sum(jnp.sin(output))

    gradient = jax.jit(jax.grad(loss, (0, 1)))
    shapes = ((rows, queries, 4, 8), jnp.float32), ((rows, keys, 2, 8), jnp.float32)
    shapes += ((rows, 1, 1, keys), jnp.bool_), ((rows,), jnp.int32)
    program = export.export(gradient)(*(jax.ShapeDtypeStruct(*one) for one in shapes))
    for B, T, S in ((1, 5, 7), (3, 9, 4)):
        random = np.random.default_rng(T)
        query, key = (jnp.asarray(random.standard_normal(x), jnp.float32) for x in ((B, T, 4, 8), (B, S, 2, 8)))
        given = query, key, jnp.asarray(random.random((B, 1, 1, S)) < 0.7), jnp.full((B,), S - 1, jnp.int32)
        for got, want in zip(program.call(*given), gradient(*given), strict=True):
            np.testing.assert_allclose(got, want, atol=2e-5, rtol=2e-5)
