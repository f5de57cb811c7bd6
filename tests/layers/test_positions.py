"""Position layers against their formulas in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import build_model
from attention_research.errors import ConfigError
from attention_research.kernels import sinusoidal_positions
from attention_research.layers.positions.concatenated import ConcatenatedPositions
from attention_research.layers.positions.conditional import ConditionalPositions
from attention_research.layers.positions.learned import LearnedPositions
from attention_research.layers.positions.sinusoidal import SinusoidalPositions
from attention_research.layers.positions.sinusoidal_halves import SinusoidalHalves


@pytest.mark.parametrize("width", [6, 7])
def test_all_sines_stand_before_all_cosines(width):
    layer = SinusoidalHalves(width=width, max_length=23, rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).standard_normal((2, 5, width)).astype(np.float32)
    positions = np.array([[0, 1, 2, 3, 4], [22, 7, 7, 0, 13]], np.int32)
    got = np.asarray(jax.jit(lambda *given: layer(*given))(x, positions)) - x
    sines = -(-width // 2)
    for row, t, column in np.ndindex(got.shape):
        pair, function = (column, np.sin) if column < sines else (column - sines, np.cos)
        want = function(positions[row, t] / 10000 ** (2 * pair / width))
        np.testing.assert_allclose(got[row, t, column], want, atol=1e-6)


def test_concatenated_positions_are_projected_beside_the_embeddings():
    layer = ConcatenatedPositions(width=6, max_length=23, rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).standard_normal((2, 3, 6)).astype(np.float32)
    positions = np.array([[0, 1, 2], [22, 7, 7]], np.int32)
    angles = positions[..., None] / 10000 ** (np.arange(0, 6, 2) / 6)
    encoding = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(2, 3, 6)
    want = np.concatenate([x, encoding], axis=-1) @ np.asarray(layer.kernel[...], np.float64)
    np.testing.assert_allclose(jax.jit(lambda *given: layer(*given))(x, positions), want, atol=1e-5)


def test_rows_longer_than_the_table_are_refused_and_packed_ones_are_not():
    layer = LearnedPositions(width=6, max_length=4, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="learned positions: 5 tokens, but the table has 4 rows"):
        layer(jnp.zeros((2, 5, 6)), jnp.arange(5)[None])
    packed = jnp.array([[0, 1, 2, 0, 1], [0, 1, 0, 1, 2]])
    np.testing.assert_array_equal(layer(jnp.zeros((2, 5, 6)), packed), layer.table[...][packed])


#: The layers with a table of positions -> (the layer, the rows that it gives for embeddings of 0).
TABLES = {
    "learned": (LearnedPositions, lambda layer: layer.table[...]),
    "sinusoidal": (SinusoidalPositions, lambda layer: sinusoidal_positions(4, 6)),
    "sinusoidal_halves": (SinusoidalHalves, lambda layer: sinusoidal_positions(4, 6)[:, [0, 2, 4, 1, 3, 5]]),
    "concatenated": (ConcatenatedPositions, lambda layer: sinusoidal_positions(4, 6) @ layer.kernel[...][6:]),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("rows", [1, 2])
def test_no_position_beyond_the_table_gets_another_ones_row(kind, rows):
    """A batch of one row may be a packed one, so that a compiled program computes NaN."""
    make, expected = TABLES[kind]
    layer = make(width=6, max_length=4, rngs=nnx.Rngs(0))
    x, longer = jnp.zeros((rows, 6, 6)), jnp.arange(6, dtype=jnp.int32)[None]
    with pytest.raises(ValueError, match=r"positions: .*, but the table has 4 rows; set max_length"):
        layer(x, longer)
    compiled = jax.jit(lambda *given: layer(*given))
    packed = jnp.array([[0, 1, 2, 3, 0, 1]])
    if rows == 1:
        found = compiled(x, longer)
        np.testing.assert_allclose(found[0, :4], expected(layer), atol=1e-6)
        assert np.isnan(found[0, 4:]).all()
    together = packed if rows == 1 else jnp.tile(packed, (rows, 1))
    for call in (layer, compiled):
        np.testing.assert_allclose(call(x, together)[-1], expected(layer)[packed[0]], atol=1e-6)


@pytest.mark.parametrize("kernel_width", [3, 4, 9])
def test_conditional_positions_are_a_depthwise_convolution_of_real_neighbours(kernel_width):
    layer = ConditionalPositions(width=6, kernel_width=kernel_width, rngs=nnx.Rngs(0))
    layer.bias[...] = jnp.arange(6.0)
    kernel, left = np.asarray(layer.kernel[...], np.float64), kernel_width // 2
    x = np.random.default_rng(0).standard_normal((2, 7, 6)).astype(np.float32)
    example = np.array([[1, 1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 1, 0, 0]])  # a packed row, and padding with 0
    packed = (example[:, None, :, None] == example[:, None, None, :]) & (example != 0)[:, None, None]
    for mask, together in (
        (None, lambda row, i, j: True),
        ((example != 0)[:, None, None], lambda row, i, j: example[row, j] != 0),
        (packed, lambda row, i, j: example[row, j] != 0 and example[row, i] == example[row, j]),
    ):
        got = jax.jit(lambda x, mask: layer(x, jnp.arange(7)[None], mask))(x, mask)
        for row, i in np.argwhere(np.ones((2, 7)) if mask is None else example != 0):
            reached = [(j, j - i + left) for j in range(7) if 0 <= j - i + left < kernel_width and together(row, i, j)]
            want = x[row, i] + np.arange(6.0) + sum((x[row, j] * kernel[:, tap] for j, tap in reached), np.zeros(6))
            np.testing.assert_allclose(got[row, i], want, atol=1e-5)


def test_a_decoder_refuses_positions_that_read_later_tokens():
    section = {"kind": "language_model", "width": 12, "num_heads": 3, "num_layers": 2}
    section["feed_forward"] = {"hidden_width": 17}
    make = build_model({**section, "positions": {"kind": "conditional"}}, max_length=13, vocabulary_size=29)
    with pytest.raises(ConfigError, match=r"positions\.kind: ConditionalPositions reads later tokens"):
        make(rngs=nnx.Rngs(0))
