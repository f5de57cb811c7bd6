"""Blocks computed in groups, one group after the other, give the same results as all blocks at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import block_local_attention, sliding_window_attention
from attention_research.kernels.efficient import blocks
from tests.tiers import fast_are

B, T, N, K, H = 2, 61, 4, 2, 5
FORMS = {
    "window": lambda *arrays, mask: sliding_window_attention(
        *arrays, window=7, global_positions=3, block_size=8, mask=mask
    ),
    "block": lambda *arrays, mask: block_local_attention(*arrays, block_size=7, mask=mask),
}


@pytest.mark.parametrize("form", fast_are(["block"], FORMS.keys()))
def test_groups_of_blocks_equal_all_blocks_at_once(form, monkeypatch):
    random = np.random.default_rng(0)
    arrays = [jnp.asarray(random.standard_normal((B, T, heads, H)), jnp.float32) for heads in (N, K, K)]
    direction = jnp.asarray(random.standard_normal((B, T, N, H)), jnp.float32)
    mask = jnp.arange(T)[None] < jnp.asarray([[T], [23]])

    def total(*arrays):
        return jnp.sum(FORMS[form](*arrays, mask=mask) * direction)

    def program():
        return jax.jit(jax.value_and_grad(lambda *x: total(*x), (0, 1, 2))).lower(*arrays)

    whole, gradients = program().compile()(*arrays)
    monkeypatch.setattr(blocks, "GROUP_ELEMENTS", 2000)  # three groups, the last one not full
    grouped = program()
    assert "while" in grouped.as_text()
    value, others = grouped.compile()(*arrays)
    np.testing.assert_allclose(value, whole, rtol=1e-5)
    for one, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
