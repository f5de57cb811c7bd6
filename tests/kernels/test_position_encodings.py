"""Position encodings and the ways to combine them with the inputs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention, sinusoidal_positions
from attention_research.kernels.positions import (
    add_positions,
    concatenate_positions,
    learned_positions,
    no_positions,
    positional_attention,
    project_concatenated,
    sinusoidal_at,
)
from tests.kernels.conftest import attention64

B, T, S, N, K, H, HV, D, P = 2, 11, 13, 6, 3, 5, 7, 17, 3


def sinusoid64(position: int, width: int, base: float) -> list[float]:
    """Vaswani et al. 2017, section 3.5, in scalar arithmetic."""
    pairs = [(position / base ** (2 * i / width)) for i in range((width + 1) // 2)]
    return [f(angle) for angle in pairs for f in (np.sin, np.cos)][:width]


@pytest.mark.parametrize("width, base", [(6, 10000.0), (7, 10000.0), (8, 20.0)])
def test_sinusoids_at_any_position_are_the_equation(width, base):
    positions = np.array([[0, 1, 2, 511], [-3, 10_007, 1_000_003, 2**29]])
    expected = [[sinusoid64(int(p), width, base) for p in row] for row in positions]
    got = jax.jit(lambda p: sinusoidal_at(p, width, base=base))(jnp.asarray(positions, jnp.int32))
    np.testing.assert_allclose(got, expected, atol=1e-6, rtol=0)


def test_sinusoids_at_positions_are_rows_of_the_table():
    positions = jnp.array([[4, 0, 10]])
    np.testing.assert_allclose(sinusoidal_at(positions, D), sinusoidal_positions(T, D)[positions], atol=1e-6)


def test_positions_are_whole_numbers(unchecked):
    with pytest.raises(ValueError, match="positions: expected integers, got float32"):
        sinusoidal_at(jnp.ones((2, 3)), 4)


def test_learned_positions_are_an_embedding(normal, torch):
    table = normal(S, D)
    positions = jnp.array([[0, 3, 3, 12], [12, 0, 0, 7]])
    weight = torch.tensor(np.asarray(table), requires_grad=True)
    expected = torch.nn.functional.embedding(torch.tensor(np.asarray(positions)), weight)
    got, pull = jax.vjp(lambda table: learned_positions(table, positions), table)
    np.testing.assert_array_equal(got, expected.detach())
    cotangent = normal(*got.shape)
    expected.backward(torch.tensor(np.asarray(cotangent)))
    np.testing.assert_allclose(pull(cotangent)[0], weight.grad, atol=1e-6)


def test_a_position_beyond_the_table_gives_nan(normal):
    got = learned_positions(normal(S, D), jnp.array([[S, S - 1, -1]]))
    assert np.isnan(got[0, 0]).all() and np.isfinite(got[0, 1]).all() and np.isnan(got[0, 2]).all()


def test_bfloat16_gradients_of_a_position_are_summed_in_float32(normal):
    table = normal(2, D).astype(jnp.bfloat16)
    positions = jnp.zeros((1, 1021), jnp.int32)
    _, pull = jax.vjp(lambda table: learned_positions(table, positions), table)
    gradient = pull(jnp.ones((1, 1021, D), jnp.bfloat16))[0]
    np.testing.assert_allclose(gradient[0].astype(jnp.float32), 1021, rtol=2**-8)


def attend(x, is_causal=False):
    heads = x[:, :, None]
    return dot_product_attention(heads, heads, heads, is_causal=is_causal)[:, :, 0]


@pytest.mark.slow
def test_without_positions_only_causal_attention_knows_the_order(normal):
    x, order = normal(B, T, D), np.random.default_rng(0).permutation(T)
    table = sinusoidal_positions(T, D)[None]
    np.testing.assert_allclose(attend(no_positions(x[:, order])), attend(no_positions(x))[:, order], atol=1e-6)
    moved = attend(add_positions(x[:, order], table)) - attend(add_positions(x, table))[:, order]
    assert np.abs(moved).max() > 0.1
    # Scores are equal and the first token is marked. Causal attention then computes 1 / (i + 1), which tells the
    # position.
    marked = jnp.zeros((1, T, 1, 1)).at[0, 0].set(1.0)
    same = jnp.ones((1, T, 1, 1))
    counted = dot_product_attention(same, same, no_positions(marked[..., 0])[..., None], is_causal=True)
    np.testing.assert_allclose(1 / counted[0, :, 0, 0], np.arange(T) + 1, rtol=1e-6)


def test_concatenation_is_a_sum_of_projections_and_addition_the_tied_case(normal):
    x, encoding, shared = normal(B, T, D), normal(B, T, P), normal(1, T, P)
    weight = normal(D + P, 5)
    for p in (encoding, shared):
        joined = np.concatenate([np.asarray(x), np.broadcast_to(p, (B, T, P))], axis=-1)
        np.testing.assert_array_equal(concatenate_positions(x, p), joined)
        expected = joined.astype(np.float64) @ np.asarray(weight, np.float64)
        np.testing.assert_allclose(project_concatenated(x, p, weight), expected, atol=5e-6)
        apart = np.asarray(x, np.float64) @ np.asarray(weight[:D]) + np.asarray(p, np.float64) @ np.asarray(weight[D:])
        np.testing.assert_allclose(apart, expected, atol=1e-12)
    added = add_positions(x, normal(1, T, D) + 0)
    encoding = added[:1] - x[:1]
    tied = jnp.concatenate([weight[:D], weight[:D]])
    expected = np.asarray(add_positions(x, encoding), np.float64) @ np.asarray(weight[:D], np.float64)
    np.testing.assert_allclose(project_concatenated(x, encoding, tied), expected, atol=1e-5)


def test_a_projection_of_another_width_is_refused(normal, unchecked):
    with pytest.raises(ValueError, match=r"weight: axis DP of \[DP O\]: expected 17 \+ 3 as x and encoding, got 19"):
        project_concatenated(normal(B, T, D), normal(B, T, P), normal(19, 5))


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_positions_in_attention_are_the_equation(is_causal, normal):
    query, key, value = normal(B, T, N, H), normal(B, T, K, H), normal(B, T, K, HV)
    of_query, of_key, of_value = normal(T, N, H), normal(T, 1, H), normal(T, K, HV)
    mask = jnp.asarray(np.random.default_rng(1).random((B, 1, 1, T)) < 0.7)
    got = positional_attention(query, key, value, of_query, of_key, of_value, mask=mask, is_causal=is_causal)
    for b in range(B):
        moved = (
            np.asarray(x[b : b + 1], np.float64) + np.asarray(p)
            for x, p in ((query, of_query), (key, of_key), (value, of_value))
        )
        expected, _ = attention64(*moved, mask=mask[b : b + 1], is_causal=is_causal)
        np.testing.assert_allclose(got[b : b + 1], expected, atol=5e-6, rtol=5e-5)


@pytest.mark.slow
def test_positions_left_out_are_not_added_and_one_query_is_its_row(normal):
    query, key, value = normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, HV)
    of_query, of_key = normal(T, 1, H), normal(S, 1, H)
    np.testing.assert_array_equal(positional_attention(query, key, value), dot_product_attention(query, key, value))
    whole = positional_attention(query, key, value, of_query, of_key)
    one = positional_attention(query[:, 4:5], key, value, of_query[4:5], of_key)
    np.testing.assert_allclose(one, whole[:, 4:5], atol=1e-6)


def test_no_positions_have_an_empty_table():
    assert sinusoidal_positions(0, 5).shape == (0, 5)
