"""Parameter counts. A model far larger than this machine's memory is counted without allocating it."""

import jax
import jax.numpy as jnp
import pytest

from attention_research.accounting import (
    ParameterRow,
    by_prefix,
    count_flops,
    count_parameters,
    peak_bytes,
    peak_resident_bytes,
    size_in_bytes,
)

SHAPES = {
    "encoder.blocks.attention.query.kernel": jax.ShapeDtypeStruct((2, 3, 5), jnp.float32),
    "encoder.blocks.norm.scale": jax.ShapeDtypeStruct((2, 3), jnp.float32),
    "decoder.norm.scale": jax.ShapeDtypeStruct((7,), jnp.bfloat16),
    "encoder.norm.scale": jax.ShapeDtypeStruct((3,), jnp.float32),
    "temperature": jax.ShapeDtypeStruct((), jnp.float32),
}


def test_counts_and_rows():
    assert count_parameters(SHAPES) == 30 + 6 + 7 + 3 + 1 and count_parameters({}) == 0
    assert by_prefix(SHAPES) == [
        ParameterRow("encoder", 3, 39, 156),
        ParameterRow("decoder", 1, 7, 14),
        ParameterRow("temperature", 1, 1, 4),
    ]
    assert by_prefix(SHAPES, depth=2)[:2] == [
        ParameterRow("encoder.blocks", 2, 36, 144),
        ParameterRow("decoder.norm", 1, 7, 14),
    ]
    for depth in (1, 2, 9):
        rows = by_prefix(SHAPES, depth)
        assert sum(row.parameters for row in rows) == 47 and sum(row.arrays for row in rows) == 5
        assert sum(row.bytes for row in rows) == size_in_bytes(SHAPES)
    with pytest.raises(ValueError, match="depth: expected at least 1, got 0"):
        by_prefix(SHAPES, 0)


def test_a_billion_parameters_take_no_memory():
    layers, width, hidden, vocabulary, batch, length = 20, 2048, 8192, 32000, 8, 512
    shapes = {
        "table": jax.ShapeDtypeStruct((vocabulary, width), jnp.float32),
        "blocks.attention": jax.ShapeDtypeStruct((layers, 4, width, width), jnp.float32),
        "blocks.up": jax.ShapeDtypeStruct((layers, width, hidden), jnp.float32),
        "blocks.down": jax.ShapeDtypeStruct((layers, hidden, width), jnp.float32),
    }

    def loss(parameters, tokens):
        def block(x, layer):
            attention, up, down = layer
            query, key, value = (jnp.einsum("BTD,DE->BTE", x, attention[n]) for n in range(3))
            weights = jax.nn.softmax(jnp.einsum("BTE,BSE->BTS", query, key))
            x = x + jnp.einsum("BTE,ED->BTD", jnp.einsum("BTS,BSE->BTE", weights, value), attention[3])
            return x + jnp.einsum("BTF,FD->BTD", jax.nn.relu(jnp.einsum("BTD,DF->BTF", x, up)), down), None

        stacked = tuple(parameters[f"blocks.{name}"] for name in ("attention", "up", "down"))
        x, _ = jax.lax.scan(jax.checkpoint(block), parameters["table"][tokens], stacked)
        return jax.nn.log_softmax(jnp.einsum("BTD,VD->BTV", x, parameters["table"]))[..., 0].mean()

    def train_step(parameters, tokens):
        gradients = jax.grad(loss)(parameters, tokens)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

    before = peak_resident_bytes()
    tokens = jax.ShapeDtypeStruct((batch, length), jnp.int32)
    parameters, counted, peak = count_parameters(shapes), count_flops(train_step, shapes, tokens), None
    peak = peak_bytes(train_step, shapes, tokens)
    assert parameters == 1_072_168_960
    rows, a_layer = batch * length, 4 * width * width + 2 * width * hidden
    products = 2 * rows * a_layer + 2 * 2 * rows * length * width
    # Forward once, backward twice. Remat repeats all but the last product of a block, whose result is not needed.
    head = 3 * 2 * rows * vocabulary * width
    assert counted.matmul == head + layers * (4 * products - 2 * rows * width * hidden)
    assert counted.other >= 2 * parameters  # the update
    assert peak > 2 * 4 * parameters
    assert peak_resident_bytes() - before < 200e6
