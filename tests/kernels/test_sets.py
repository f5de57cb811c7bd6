"""Attention over sets, against the released modules rewritten in PyTorch and the algorithm in float64 NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.kernels.sets import set_attention, slot_attention

B, T, S, N, H, M, D, Dv = 2, 5, 7, 3, 4, 3, 5, 2


def drawn(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


def test_set_attention_is_the_released_blocks(torch):
    """The attention of `MAB.forward` in juho-lee/set_transformer: heads side by side in the batch, and a mask."""
    query, key, value = drawn((B, T, N, H), (B, S, N, H), (B, S, N, H))
    real = np.arange(S) < np.array([[S], [4]])
    heads = lambda x: torch.cat(torch.tensor(x).reshape(B, -1, N * H).split(H, 2), 0)
    q, k, v = heads(query), heads(key), heads(value)
    scores = q.bmm(k.transpose(1, 2)) / np.sqrt(N * H)
    scores = scores.masked_fill(~torch.tensor(np.tile(real, (N, 1)))[:, None], -torch.inf)
    out = torch.cat((q + torch.softmax(scores, 2).bmm(v)).split(B, 0), 2).reshape(B, T, N, H)
    found = set_attention(*(jnp.float32(x) for x in (query, key, value)), mask=jnp.asarray(real))
    np.testing.assert_allclose(found, out, atol=1e-6)


def test_slot_attention_is_the_algorithm():
    """Algorithm 1, lines 6 to 8, input by input and slot by slot; padding as if the inputs were not there."""
    query, key, value = drawn((B, M, D), (B, S, D), (B, S, Dv))
    lengths, epsilon = (S, 4), 0.03
    updates, shares = np.zeros((B, M, Dv)), np.zeros((B, M, S))
    for b, length in enumerate(lengths):
        for s in range(length):
            e = np.exp([query[b, m] @ key[b, s] / np.sqrt(D) for m in range(M)])
            shares[b, :, s] = e / e.sum()
        for m in range(M):
            weights = shares[b, m, :length] + epsilon
            updates[b, m] = weights / weights.sum() @ value[b, :length]
    arrays = [jnp.float32(x) for x in (query, key, value)]
    found = slot_attention(*arrays, jnp.arange(S) < jnp.array(lengths)[:, None], epsilon=epsilon)
    for got, want in zip(found, (updates, shares), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_slots_share_every_input_and_equal_slots_share_alike():
    query, key, value = (jnp.float32(x) for x in drawn((B, M, D), (B, S, D), (B, S, Dv)))
    updates, shares = slot_attention(query.at[:, 1].set(query[:, 0]), key, value)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
    np.testing.assert_array_equal(updates[:, 0], updates[:, 1])


def test_without_inputs_slots_stay_and_sets_give_the_query():
    query, key, value = (jnp.float32(x) for x in drawn((B, T, N, H), (B, S, N, H), (B, S, N, H)))
    nothing = jnp.zeros((B, S), bool)
    np.testing.assert_array_equal(set_attention(query, key, value, nothing), query)
    slots, inputs = query[:, :, 0], key[:, :, 0]
    gradient = jax.grad(lambda x: slot_attention(slots, x, x, nothing)[0].sum())(inputs)
    assert not slot_attention(slots, inputs, inputs, nothing)[0].any() and not gradient.any()
