"""BigBird against dense attention with the explicit graph, and against Hugging Face's block-sparse attention."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import bigbird_attention, dot_product_attention
from attention_research.kernels.efficient import bigbird_random_blocks
from tests.kernels.conftest import attention64
from tests.tiers import fast_are

B, T, N, K, H, HV, P = 2, 23, 6, 3, 5, 7, 2
BLOCKS = 12  # of 2 positions; the last block has 1
MASK = jnp.asarray(np.random.default_rng(1).random((B, T)) < 0.7)


def arrays(normal):
    return normal(B, T, N, H), normal(B, T, K, H), normal(B, T, K, HV)


def graph(random, *, length, block_size, window_blocks, global_blocks):
    """[K T T]: which position may attend to which, from the sets of the paper."""
    count = -(-length // block_size)
    central = {number % count for number in global_blocks}
    pattern = np.zeros((len(random), length, length), bool)
    for head, i, j in np.ndindex(len(random), length, length):
        m, other = i // block_size, j // block_size
        near = abs(m - other) <= window_blocks // 2
        pattern[head, i, j] = near or m in central or other in central or other in list(random[head][m])
    return pattern


def bigbird64(query, key, value, random, *, block_size, window_blocks=3, global_blocks=(0, -1), mask=None):
    pattern = graph(
        np.asarray(random), length=T, block_size=block_size, window_blocks=window_blocks, global_blocks=global_blocks
    )
    pattern = np.repeat(np.broadcast_to(pattern, (K, T, T)), N // K, axis=0)[None]
    return attention64(query, key, value, mask=pattern & np.asarray(mask)[:, None, None, :])[0]


#: Random draws that include repeated blocks, blocks in the window, global blocks, and invalid blocks (-1, 12).
MESSY = np.random.default_rng(2).integers(-1, BLOCKS + 1, (K, BLOCKS, 5)).astype(np.int32)
CASES = {
    "one_graph": (MESSY[:1], dict(block_size=P)),
    "a_graph_a_head": (MESSY, dict(block_size=P)),
    "wide_window": (MESSY, dict(block_size=P, window_blocks=5, global_blocks=(0,))),
    "no_global": (MESSY, dict(block_size=P, window_blocks=1, global_blocks=())),
    "no_random": (MESSY[:1, :, :0], dict(block_size=P, global_blocks=(3, -2, 3))),
    "few_blocks": (MESSY[:1, :2], dict(block_size=17, window_blocks=7)),
}


@pytest.mark.parametrize("case", fast_are(["a_graph_a_head", "wide_window"], CASES.keys()))
def test_bigbird_is_dense_attention_with_the_graph(case, normal):
    random, settings = CASES[case]
    inputs, settings = arrays(normal), {**settings, "mask": MASK}
    given = jnp.asarray(random[0] if len(random) == 1 else random)
    attend = jax.jit(lambda *x: bigbird_attention(*x, **settings))
    got = attend(*inputs, given)
    np.testing.assert_allclose(got, bigbird64(*inputs, random, **settings), atol=5e-6, rtol=5e-5)
    if not given.size:
        np.testing.assert_array_equal(attend(*inputs), got)


def test_random_blocks_are_different_new_and_uniform():
    draw = jax.jit(jax.vmap(lambda key: bigbird_random_blocks(key, 11, 3, global_blocks=(0, -1))))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 3000)))
    for m in range(11):
        new = [j for j in range(11) if abs(m - j) > 1 and j not in (0, 10)]
        assert all(len(set(row)) == 3 for row in drawn[:, m])
        counts = np.bincount(drawn[:, m].ravel(), minlength=11)
        assert counts[new].sum() == counts.sum() == 9000
        expected = 9000 / len(new)  # chi-squared with fewer than 8 degrees of freedom: above 30 once in 10,000
        assert np.sum((counts[new] - expected) ** 2 / expected) < 30
        pairs = {tuple(sorted(row)) for row in drawn[:, m]}
        assert len(pairs) == len(new) * (len(new) - 1) * (len(new) - 2) // 6


def test_with_too_few_new_blocks_all_are_drawn_and_the_rest_is_empty():
    draw = jax.jit(lambda key: bigbird_random_blocks(key, 7, 4, window_blocks=3, global_blocks=(0,)))
    drawn = np.asarray(draw(jax.random.key(0)))
    for m, row in enumerate(drawn):
        new = {j for j in range(1, 7) if abs(m - j) > 1}
        chosen = [j for j in row if j >= 0]
        assert len(chosen) == len(set(chosen)) == min(4, len(new)) and set(chosen) <= new


def test_enough_random_blocks_are_all_of_attention(normal):
    inputs = arrays(normal)
    every = jax.jit(lambda key: bigbird_random_blocks(key, BLOCKS, BLOCKS))(jax.random.key(0))
    got = jax.jit(partial(bigbird_attention, block_size=P))(*inputs, every)
    np.testing.assert_allclose(got, jax.jit(dot_product_attention)(*inputs), atol=1e-5)


@pytest.mark.slow
def test_block_sparse_attention_of_hugging_face_gives_the_same(torch):
    transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

    heads, width, block, count, chosen = 3, 5, 2, 11, 2
    config = transformers.BigBirdConfig(
        hidden_size=heads * width, num_attention_heads=heads, block_size=block, num_random_blocks=chosen,
        max_position_embeddings=block * count,
    )  # fmt: skip
    torch.manual_seed(0)
    layer = BigBirdBlockSparseAttention(config).double()
    keys = jax.random.split(jax.random.key(0), heads)
    random = jax.jit(jax.vmap(lambda key: bigbird_random_blocks(key, count, chosen)))(keys)
    layer._bigbird_block_rand_mask_with_head = lambda **_: list(np.asarray(random)[:, 1:-1])
    hidden = torch.randn(2, block * count, heads * width, dtype=torch.float64)
    real = torch.ones(2, block * count, dtype=torch.float64)
    real[0, 17:] = 0
    masks = BigBirdModel.create_masks_for_block_sparse_attn(real, block)
    blocked, band, from_mask, to_mask = masks
    # Its masks add -10,000, which hides a key completely in float64.
    with torch.no_grad():
        expected = layer(hidden, band, from_mask, to_mask, blocked, blocked)[0].numpy()
        projected = SimpleNamespace(
            **{n: getattr(layer, n)(hidden).reshape(2, -1, heads, width).numpy() for n in ("query", "key", "value")}
        )
    with jax.enable_x64(True):
        got = jax.jit(partial(bigbird_attention, block_size=block))(
            projected.query, projected.key, projected.value, random, mask=jnp.asarray(real.numpy() > 0)
        )
    is_real = real.numpy() > 0
    np.testing.assert_allclose(np.asarray(got).reshape(2, block * count, -1)[is_real], expected[is_real], atol=1e-10)


def test_errors_name_the_argument(normal, unchecked):
    inputs = arrays(normal)
    with pytest.raises(ValueError, match=r"random_blocks: expected .* with M = 12 blocks, got shape \[11, 5\]"):
        bigbird_attention(*inputs, jnp.asarray(MESSY[0, 1:]), block_size=P)
    with pytest.raises(ValueError, match=r"random_blocks: axis K of \[K M R\]: expected 3 key heads, got 2"):
        bigbird_attention(*inputs, jnp.asarray(MESSY[1:]), block_size=P)
    with pytest.raises(ValueError, match="window_blocks: expected an odd number of blocks, got 2"):
        bigbird_attention(*inputs, block_size=P, window_blocks=2)
