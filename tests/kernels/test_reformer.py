"""LSH attention: the equation over the same pattern, the released code's form, and dense attention in one chunk."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.efficient import lsh_attention, lsh_buckets
from tests.tiers import fast_are

B, T, N, H, HV, R, P = 2, 23, 3, 5, 7, 3, 4
REAL = np.arange(T) < np.array([[17], [23]])


@pytest.fixture
def arrays(normal):
    query = normal(B, T, N, H)
    return query, normal(B, T, N, HV), lsh_buckets(query, normal(H, R, 2))


def seen64(buckets, mask, chunk_size, before):
    """Whether key j is in a chunk that query i sees [R T T], by sorting a list. `buckets` is [T R] for one head."""
    length, rounds = buckets.shape
    seen = np.zeros((rounds, length, length), bool)
    for r in range(rounds):
        ordered = sorted(range(length), key=lambda j: (not mask[j], buckets[j, r] if mask[j] else 0, j))
        place = {j: number // chunk_size for number, j in enumerate(ordered)}
        for i, j in np.ndindex(length, length):
            seen[r, i, j] = 0 <= place[i] - place[j] <= before and mask[j] and i != j
    return seen


def lsh64(query, value, buckets, mask, chunk_size, before=1, is_causal=False, count_repeats=False, scale=H**-0.5):
    """Appendix A: every key seen in some round counts once (or once per round).

    If there is none, the query's own value.
    """
    query, value = np.asarray(query, np.float64), np.asarray(value, np.float64)
    out = np.zeros(value.shape)
    for b, n in np.ndindex(B, N):
        seen = seen64(np.asarray(buckets[b, :, n]), mask[b], chunk_size, before)
        for i in range(T):
            weights = {}
            for r, j in np.ndindex(seen.shape[0], T):
                if seen[r, i, j] and not (is_causal and j > i):
                    weight = np.exp(scale * query[b, i, n] @ query[b, j, n] / np.linalg.norm(query[b, j, n]))
                    weights[j] = weight + (weights.get(j, 0) if count_repeats else 0)
            if weights:
                out[b, i, n] = sum(w * value[b, j, n] for j, w in weights.items()) / sum(weights.values())
            elif mask[b, i]:
                out[b, i, n] = value[b, i, n]
    return out


CASES = {
    "plain": {},
    "causal_masked": {"is_causal": True, "masked": True},
    "repeats": {"count_repeats": True},
    "two_chunks_before": {"before": 2, "masked": True},
    "own_chunk_only": {"before": 0},
    "chunks_of_one": {"chunk_size": 1, "before": 0},
}


@pytest.mark.parametrize("case", fast_are(["plain"], CASES.keys()))
def test_lsh_attention_is_the_equation_over_the_same_pattern(case, arrays):
    case = {"chunk_size": P, **CASES[case]}
    masked = case.pop("masked", False)
    mask = np.where(REAL[:, ::-1], True, not masked)  # padding at the start of the sequence
    expected = lsh64(*arrays, mask, **case)
    case["chunks_before"] = case.pop("before", 1)
    attend = jax.jit(partial(lsh_attention, mask=jnp.asarray(mask) if masked else None, **case))
    np.testing.assert_allclose(attend(*arrays), np.where(mask[:, :, None, None], expected, attend(*arrays)), atol=3e-6)


@pytest.mark.slow
def test_more_padding_does_not_change_real_queries(arrays):
    query, value, buckets = (x[:1] for x in arrays)
    attend = jax.jit(partial(lsh_attention, chunk_size=P))
    short = attend(query[:, :17], value[:, :17], buckets[:, :17])
    np.testing.assert_allclose(attend(query, value, buckets, mask=jnp.asarray(REAL[:1]))[:, :17], short, atol=2e-6)


def test_one_chunk_for_all_is_attention_to_all_other_positions(arrays):
    query, value, buckets = arrays
    logits = np.einsum("btnh,bsnh->bnts", query, query / np.linalg.norm(query, axis=-1, keepdims=True)) / np.sqrt(H)
    weights = np.exp(logits) * (1 - np.eye(T))
    expected = np.einsum("bnts,bsnh->btnh", weights / weights.sum(-1, keepdims=True), value)
    for repeats in (False, True):
        attend = jax.jit(partial(lsh_attention, chunk_size=100, count_repeats=repeats))
        np.testing.assert_allclose(attend(query, value, buckets), expected, atol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("rounds, before", [(3, 0), (1, 1)])
def test_lsh_attention_is_hugging_faces(rounds, before, is_causal, normal, torch):
    """The released code's form. Its first chunk also sees the last chunk, unlike ours, so it is left out."""
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    length = 24
    config = ReformerConfig(
        hidden_size=N * H, num_attention_heads=N, attention_head_size=H, num_hashes=rounds, num_buckets=4,
        lsh_attn_chunk_length=P, lsh_num_chunks_before=before, lsh_num_chunks_after=0, is_decoder=is_causal,
        lsh_attention_probs_dropout_prob=0.0, hash_seed=0,
    )  # fmt: skip
    theirs = LSHSelfAttention(config).eval().double()  # its logits of -1e5 would lose digits in float32
    x = normal(B, length, N * H)
    with torch.no_grad():
        expected = theirs(torch.tensor(np.asarray(x, np.float64)), num_hashes=rounds)
    query, value = (
        (x @ jnp.asarray(layer.weight.detach().numpy(), jnp.float32).T).reshape(B, length, N, H)
        for layer in (theirs.query_key, theirs.value)
    )
    buckets = expected.buckets.numpy() - 4 * np.arange(rounds)[:, None]  # [B N R T], offset by the round
    ours = partial(lsh_attention, chunk_size=P, chunks_before=before, is_causal=is_causal, count_repeats=True, scale=1)
    got = jax.jit(ours)(query, value, jnp.asarray(buckets.transpose(0, 3, 1, 2), jnp.int32))
    first = np.argsort(buckets, axis=-1, kind="stable")[:, :, 0, :P] if before else np.zeros((B, N, 0), int)
    compared = np.ones((B, N, length), bool)
    np.put_along_axis(compared, first, False, axis=-1)
    compared = compared.transpose(0, 2, 1)[..., None]
    theirs = expected.hidden_states.numpy().reshape(B, length, N, H)
    np.testing.assert_allclose(np.where(compared, got, 0), np.where(compared, theirs, 0), atol=2e-5)


def test_buckets_are_the_nearest_of_the_rotated_directions_and_keep_neighbours_together(normal):
    query, rotations = normal(B, T, N, H), normal(H, R, 2)
    found = lsh_buckets(query, rotations)
    rows, turned, found = map(np.asarray, (query, rotations, found))
    for b, t, n, r in np.ndindex(found.shape):
        products = [float(rows[b, t, n] @ turned[:, r, c]) for c in range(2)]
        products += [-p for p in products]
        assert found[b, t, n, r] == products.index(max(products))
    np.testing.assert_array_equal(lsh_buckets(3.0 * query, rotations), found)
    many = jnp.asarray(np.random.default_rng(5).standard_normal((H, 500, 2)), jnp.float32)
    together = lambda other: float((lsh_buckets(query, many) == lsh_buckets(other, many)).mean())
    assert together(query + 0.1 * normal(B, T, N, H)) > 0.8 > 0.4 > together(normal(B, T, N, H)) > together(-query) == 0


@pytest.mark.slow
def test_memory_is_linear_in_the_length():
    def measured(length):
        shape = jax.ShapeDtypeStruct((1, length, 1, 8), jnp.float32)
        buckets = jax.ShapeDtypeStruct((1, length, 1, 2), jnp.int32)
        loss = jax.grad(lambda q, v, b: lsh_attention(q, v, b, chunk_size=16).sum(), (0, 1))
        return jax.jit(loss).lower(shape, shape, buckets).compile().memory_analysis().temp_size_in_bytes

    short, long = measured(1024), measured(2048)
    assert long < 2.2 * short and long < 2 * 4 * 2048 * 2048


def test_errors_name_the_argument(arrays, unchecked):
    query, value, buckets = arrays
    with pytest.raises(ValueError, match="chunk_size: expected at least 1, got 0"):
        lsh_attention(query, value, buckets, chunk_size=0)
    with pytest.raises(ValueError, match="chunks_before: expected at least 0, got -1"):
        lsh_attention(query, value, buckets, chunk_size=P, chunks_before=-1)
    with pytest.raises(ValueError, match=r"rotations: axis H of \[H R C\]: expected 5 as in query, got 4"):
        lsh_buckets(query, jnp.ones((4, R, 2)))
