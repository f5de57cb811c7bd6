"""Alignment scores against float64 loops over the papers' equations, and the layer that attends with them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.linalg import norm

from attention_research.kernels import (
    additive_scores,
    attend,
    attention_weights,
    dot_product_attention,
    dot_scores,
    general_scores,
    reduced_rank_scores,
)
from attention_research.kernels.scores import (
    concat_scores,
    cosine_scores,
    location_scores,
    location_weights,
    projected_additive_scores,
    scaled_dot_scores,
)
from tests.kernels.conftest import softmax64

B, T, S, D, DQ, DK, DV, A, R, L = 2, 5, 7, 13, 11, 3, 17, 19, 23, 29
TEMPERATURE = np.float32(0.3)

#: name -> (function, widths of query and keys, shapes of the weights, the equation for one query and one key)
EQUATIONS = {
    "dot": (dot_scores, (D, D), (), lambda q, k: sum(q * k)),
    "scaled dot": (scaled_dot_scores, (D, D), (), lambda q, k: sum(q * k) / np.sqrt(D)),
    "general": (general_scores, (DQ, DK), ((DQ, DK),), lambda q, k, W: q @ W @ k),
    "reduced rank": (reduced_rank_scores, (DQ, DK), ((R, DQ), (R, DK)), lambda q, k, U, V: (U @ q) @ (V @ k)),
    "additive": (
        additive_scores, (DQ, DK), ((A, DQ), (A, DK), (A,)), lambda q, k, W, U, v: v @ np.tanh(W @ q + U @ k)
    ),
    "projected additive": (projected_additive_scores, (A, A), ((A,),), lambda q, k, v: v @ np.tanh(q + k)),
    "concat": (
        concat_scores, (DQ, DK), ((A, DQ + DK), (A,)), lambda q, k, W, v: v @ np.tanh(W @ np.concatenate([q, k]))
    ),
    "cosine": (cosine_scores, (D, D), (), lambda q, k: q @ k / (norm(q) * norm(k))),
    "cosine with temperature": (
        lambda q, k: cosine_scores(q, k, jnp.asarray(TEMPERATURE)), (D, D), (),
        lambda q, k: q @ k / (norm(q) * norm(k) * np.float64(TEMPERATURE)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUATIONS)
def test_scores_are_the_equations(name, normal):
    function, widths, shapes, equation = EQUATIONS[name]
    arrays = [normal(B, T, widths[0]), normal(B, S, widths[1]), *(normal(*shape) for shape in shapes)]
    query, keys, *weights = (np.asarray(x, np.float64) for x in arrays)
    expected = [[[equation(q, k, *weights) for k in keys[b]] for q in query[b]] for b in range(B)]
    np.testing.assert_allclose(jax.jit(function)(*arrays), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("length", [L - 6, L, L + 2], ids=["shorter", "equal", "longer"])
def test_location_scores_and_weights_use_the_top_part_and_ignore_what_lies_beyond(length, normal):
    query, weight = normal(B, T, DQ), normal(L, DQ)
    values = np.asarray(normal(B, length, DV), np.float64)

    @jax.jit
    def run(query, weight, values):
        scores = location_scores(query, weight, length)
        return scores, location_weights(query, weight, length), *attend(scores, values)

    scores, early, context, late = run(query, weight, jnp.asarray(values, jnp.float32))
    assert scores.shape == early.shape == late.shape == (B, T, length)
    scores, early, late, query = map(np.asarray, (scores, early, late, query))
    for b, t in np.ndindex(B, T):
        logits = np.asarray(weight, np.float64) @ np.asarray(query[b, t], np.float64)
        exponentials = np.exp(logits - logits.max())
        seen = min(length, L)
        np.testing.assert_allclose(scores[b, t, :seen], logits[:seen], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(early[b, t, :seen], (exponentials / exponentials.sum())[:seen], atol=1e-6)
        renormalised = exponentials[:seen] / exponentials[:seen].sum()
        np.testing.assert_allclose(late[b, t, :seen], renormalised, atol=1e-6)
        np.testing.assert_allclose(context[b, t], renormalised @ values[b, :seen], atol=1e-5)
    assert not np.any(early[..., L:]) and not np.any(late[..., L:])
    assert (np.asarray(early.sum(-1)) < 1 - 1e-6).any() == (length < L)


def test_the_gradient_of_location_passes_words_beyond_its_length(normal):
    query, weight, values = normal(B, T, DQ), normal(L, DQ), normal(B, L + 2, DV)
    loss = lambda *x: jnp.sum(jnp.sin(attend(location_scores(*x[:2], L + 2), x[2])[0]))
    *of_inputs, of_values = jax.jit(jax.grad(loss, (0, 1, 2)))(query, weight, values)
    assert all(np.isfinite(x).all() and np.any(x) for x in of_inputs)
    assert np.any(of_values[:, :L]) and not np.any(of_values[:, L:])


@pytest.mark.parametrize("kind", ["none", "keys", "pairs", "one row for all", "-inf"])
def test_attend_is_the_softmax_of_what_is_visible_times_the_values(kind, normal):
    scores, values = 3 * normal(B, T, S), normal(B, S, DV)
    random = np.random.default_rng(1)
    shape = {"keys": (B, S), "pairs": (B, T, S), "-inf": (B, T, S), "one row for all": (1, 1, S)}.get(kind)
    mask = None if shape is None else random.random(shape) < 0.6
    if mask is not None:
        mask.reshape(-1, S)[-1] = kind == "one row for all"  # an example or a query without visible keys
    visible = np.ones((B, T, S), bool)
    if mask is not None:
        visible = np.broadcast_to(mask[:, None] if kind == "keys" else mask, (B, T, S))
    if kind == "-inf":
        context, weights = jax.jit(attend)(jnp.where(visible, scores, -jnp.inf), values)
    else:
        context, weights = jax.jit(attend)(scores, values, None if mask is None else jnp.asarray(mask))
    expected = softmax64(np.asarray(scores, np.float64), visible)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    context, weights, values = map(np.asarray, (context, weights, values))
    for b, t in np.ndindex(B, T):
        np.testing.assert_allclose(context[b, t], expected[b, t] @ np.asarray(values[b], np.float64), atol=1e-5)
    if kind in ("keys", "pairs", "-inf"):
        assert not np.any(context[-1, -1]) and not np.any(weights[-1, -1])


def test_weights_are_float32_and_the_context_has_the_values_dtype(normal):
    scores, values = normal(B, T, S).astype(jnp.bfloat16), normal(B, S, DV).astype(jnp.bfloat16)
    context, weights = jax.jit(attend)(scores, values)
    assert context.dtype == jnp.bfloat16 and weights.dtype == jnp.float32
    np.testing.assert_allclose(np.asarray(weights).sum(-1), 1, atol=1e-6)
    with jax.enable_x64(True):
        wide = jax.eval_shape(attend, *(jax.ShapeDtypeStruct(x.shape, jnp.float64) for x in (scores, values)))
        assert {x.dtype for x in wide} == {jnp.dtype(jnp.float64)}


@pytest.mark.slow
def test_attend_by_scaled_dot_scores_is_dot_product_attention(normal):
    query, keys, values = normal(B, T, D), normal(B, S, D), normal(B, S, DV)
    real = jnp.asarray(np.arange(S) < np.array([[4], [S]]))
    context, weights = attend(scaled_dot_scores(query, keys), values, real)
    one_head = [x[:, :, None] for x in (query, keys, values)]
    mask = real[:, None, None]
    np.testing.assert_allclose(context, dot_product_attention(*one_head, mask=mask)[:, :, 0], atol=1e-6)
    np.testing.assert_allclose(weights, attention_weights(*one_head[:2], mask=mask)[:, 0], atol=1e-6)
    np.testing.assert_array_equal(scaled_dot_scores(query, keys, scale=1), dot_scores(query, keys))


def test_scores_are_special_cases_of_others(normal):
    query, keys = normal(B, T, D), normal(B, S, D)
    dots = dot_scores(query, keys)
    np.testing.assert_allclose(general_scores(query, keys, jnp.eye(D)), dots, rtol=1e-6, atol=1e-6)
    U, V = normal(R, D), normal(R, D)
    product = general_scores(query, keys, jnp.einsum("RQ,RK->QK", U, V))
    np.testing.assert_allclose(reduced_rank_scores(query, keys, U, V), product, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_concat_is_additive_with_the_weight_split_and_the_papers_simplification_an_identity(normal):
    query, keys, weight, v = normal(B, T, DQ), normal(B, S, DK), normal(A, DQ + DK), normal(A)
    joined = concat_scores(query, keys, weight, v)
    np.testing.assert_array_equal(joined, additive_scores(query, keys, weight[:, :DQ], weight[:, DQ:], v))
    turned = concat_scores(keys, query, jnp.concatenate([weight[:, DQ:], weight[:, :DQ]], axis=1), v)
    np.testing.assert_allclose(joined, turned.swapaxes(1, 2), atol=1e-5)
    W, v = normal(DK, DQ), normal(DK)
    simplified = concat_scores(query, keys, jnp.concatenate([W, jnp.eye(DK)], axis=1), v)
    simplified, query, keys, W, v = map(np.asarray, (simplified, query, keys, W, v))
    for b, t, s in np.ndindex(B, T, S):
        expected = v @ np.tanh(W @ query[b, t] + keys[b, s])
        np.testing.assert_allclose(simplified[b, t, s], expected, atol=1e-5)


def test_cosine_ignores_lengths_and_the_dot_product_does_not(normal, torch):
    query, keys = normal(B, T, D), normal(B, S, D)
    longer = keys.at[:, 2].multiply(8)
    np.testing.assert_allclose(cosine_scores(query, longer), cosine_scores(query, keys), atol=1e-6)
    np.testing.assert_allclose(
        dot_scores(query, longer)[..., 2], 8 * dot_scores(query, keys)[..., 2], rtol=1e-5, atol=1e-5
    )
    unit = [x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (query, keys)]
    np.testing.assert_allclose(dot_scores(*unit), cosine_scores(query, keys), atol=1e-6)
    pairs = (torch.tensor(np.asarray(query))[:, :, None], torch.tensor(np.asarray(keys))[:, None])
    theirs = torch.nn.functional.cosine_similarity(*pairs, dim=-1)
    np.testing.assert_allclose(cosine_scores(query, keys), theirs.numpy(), atol=1e-6)


def test_a_zero_vector_has_cosine_zero_and_gradient_zero(normal):
    query, keys = normal(B, T, D), normal(B, S, D).at[:, 3].set(0)
    summed = lambda *x: (jnp.sum(cosine_scores(*x)), cosine_scores(*x))
    (of_query, of_keys), scores = jax.jit(jax.grad(summed, (0, 1), has_aux=True))(query, keys)
    assert not np.any(scores[..., 3]) and not np.any(of_keys[:, 3])
    assert np.isfinite(of_query).all() and np.any(of_keys[:, 2])


def test_scores_keep_their_variance_only_when_scaled():
    random = np.random.default_rng(0)
    slopes = []
    for function in (dot_scores, scaled_dot_scores):
        widths = [16, 64, 256]
        draw = lambda width: jnp.asarray(random.standard_normal((1, 200, width)), jnp.float32)
        variances = [np.var(function(draw(width), draw(width))) for width in widths]
        slopes.append(np.polyfit(np.log(widths), np.log(variances), 1)[0])
    np.testing.assert_allclose(slopes, [1, 0], atol=0.05)


@pytest.mark.parametrize("chunk_size", [1, 2, 4, T, 6])
def test_chunks_change_neither_scores_nor_gradients(chunk_size, normal):
    arrays = normal(B, T, DQ), normal(B, S, DK), normal(A, DQ), normal(A, DK), normal(A)
    run = lambda size: jax.jit(jax.value_and_grad(lambda x: jnp.sum(jnp.sin(additive_scores(*x, chunk_size=size)))))
    for one, other in zip(*(jax.tree.leaves(run(size)(arrays)) for size in (chunk_size, None)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_gradients_do_not_keep_the_hidden_layer():
    B, T, S, A = 2, 64, 128, 32
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((B, T, A), (B, S, A), (A,))]
    at_once = lambda q, k, v: projected_additive_scores(q, k, v)

    def by_steps(q, k, v):
        step = lambda _, one: (None, projected_additive_scores(one[:, None], k, v)[:, 0])
        return jax.lax.scan(step, None, q.swapaxes(0, 1))[1]

    for function in (at_once, by_steps):
        kept = jax.eval_shape(lambda *x, f=function: jax.vjp(f, *x)[1], *shapes)
        assert 0 < sum(x.size for x in jax.tree.leaves(kept)) < B * T * S * A / 16
    plain = jax.eval_shape(
        lambda *x: jax.vjp(lambda q, k, v: jnp.einsum("BTSA,A->BTS", jnp.tanh(q[:, :, None] + k[:, None]), v), *x)[1],
        *shapes,
    )
    assert sum(x.size for x in jax.tree.leaves(plain)) >= B * T * S * A  # the hidden layer counts if it is kept

    loss = lambda size: lambda *x: jnp.sum(projected_additive_scores(*x, chunk_size=size))
    temporary = [
        jax.jit(jax.grad(loss(size), (0, 1, 2))).lower(*shapes).compile().memory_analysis().temp_size_in_bytes
        for size in (4, T)
    ]
    assert temporary[0] < temporary[1] / 6


def test_errors_name_the_argument_and_the_axis(normal, unchecked):
    query, keys, values = normal(B, T, DQ), normal(B, S, DK), normal(B, S, DV)
    with pytest.raises(ValueError, match=r"keys: axis D of \[B S D\]: expected 11 as in query, got 3"):
        dot_scores(query, keys)
    with pytest.raises(ValueError, match=r"weight: axis C of \[A C\]: expected Dq \+ Dk = 11 \+ 3, got 15"):
        concat_scores(query, keys, normal(A, DQ + DK + 1), normal(A))
    with pytest.raises(ValueError, match=r"keys: expected the query's dtype float32, got bfloat16"):
        general_scores(query, keys.astype(jnp.bfloat16), normal(DQ, DK))
    with pytest.raises(ValueError, match=r"query: expected floating point, got int32"):
        dot_scores(jnp.ones((B, T, D), jnp.int32), jnp.ones((B, S, D), jnp.int32))
    with pytest.raises(ValueError, match="chunk_size: expected at least 1, got 0"):
        additive_scores(query, keys, normal(A, DQ), normal(A, DK), normal(A), chunk_size=0)
    scores = normal(B, T, S)
    for mask, message in (
        (jnp.ones((T, S), bool), r"mask: axis B of \[B S\]: expected 2 as in scores, got 5"),
        (jnp.ones((B, S, T), bool), r"mask: axis T of \[#B #T #S\]: expected 1 or 5 as in scores, got 7"),
        (jnp.ones((B, 1, T, S), bool), r"mask: expected \[B S\] or \[B T S\], got shape \[2, 1, 5, 7\]"),
        (jnp.ones((B, S)), r"mask: expected bool \(True = may attend\), got float32"),
    ):
        with pytest.raises(ValueError, match=message):
            attend(scores, values, mask)
