"""Measurements of a block for `lectures/complexity`: the share of attention in its cost, and its gradient."""

from __future__ import annotations

from typing import Any


def block_shapes(width: int, num_heads: int, length: int) -> tuple[Any, Any, Any]:
    """Returns (function, shapes of the module, shape of the input) of a block without normalization layers.

    The block is attention and a feed-forward layer of width 4 D.
    """
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from attention_research.layers.attention.standard import StandardAttention
    from attention_research.layers.feed_forward.dense import DenseFeedForward

    def make() -> Any:
        rngs = nnx.Rngs(0)
        return (
            StandardAttention(width=width, num_heads=num_heads, head_width=None, rngs=rngs),
            DenseFeedForward(width=width, hidden_width=4 * width, rngs=rngs),
        )

    def apply(module: Any, x: Any) -> Any:
        attention, feed_forward = module
        x = x + attention(x)[0]
        return x + feed_forward(x)[0]

    return apply, jax.eval_shape(make), jax.ShapeDtypeStruct((1, length, width), jnp.float32)


def block_counts(width: int, num_heads: int, length: int) -> dict[str, float]:
    """Counts the FLOPs of a block's matrix products.

    Returns "block_operations", the FLOPs, "scores", the share of scores and weighted sums, and "attention", the share
    of all of attention with its projections.
    """
    from attention_research.accounting.flops import count_flops

    from ...vaswani2017.sequence_layers import Sizes, abstract_call

    function, module, x = block_shapes(width, num_heads, length)
    whole = count_flops(function, module, x).matmul
    parts = [abstract_call(kind, Sizes(width, num_heads), length) for kind in ("attention_core", "attention")]
    core, attention = (count_flops(call, *shapes).matmul for call, shapes in parts)
    return {"block_operations": whole, "scores": core / whole, "attention": attention / whole}


def measure_length(*, width: int, num_heads: int, length: int, seconds: float, seed: int, **_: Any) -> dict[str, Any]:
    """Measures a block at one length: FLOPs, the bytes of the scores of all heads, and the time of a forward pass."""
    import jax

    from attention_research.accounting.clock import measure_call

    function, module, x = block_shapes(width, num_heads, length)
    key = jax.random.key(seed)
    filled = jax.tree.map(lambda leaf: jax.random.normal(key, leaf.shape, leaf.dtype) * width**-0.5, (module, x))
    return {
        **block_counts(width, num_heads, length),
        "score_bytes": 4 * num_heads * length**2,
        "milliseconds": measure_call(function, *filled, seconds=seconds, repeats=3)["milliseconds"],
    }


def measure_share(*, width: int, num_heads: int, layers: int, model_length: int, seed: int, **_: Any) -> dict[str, Any]:
    """Computes `block_counts` of a model of published size, without its embeddings."""
    del seed
    counts = block_counts(width, num_heads, model_length)
    return {**counts, "block_operations": layers * counts["block_operations"]}


def measure_gradient(*, width: int, num_heads: int, length: int, seed: int, **_: Any) -> dict[str, float]:
    """Checks the gradient of multi-head attention against central differences in float64.

    Compared are derivatives of a random projection of the output along random directions of all weights and the input.
    "gradient_error" is the difference divided by the derivative.
    """
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from attention_research.layers.attention.standard import StandardAttention

    with jax.enable_x64(True):
        keys = iter(jax.random.split(jax.random.key(seed), 64))
        module = StandardAttention(width=width, num_heads=num_heads, head_width=None, rngs=nnx.Rngs(next(keys)))
        draw = lambda leaf: jax.random.normal(next(keys), leaf.shape, jnp.float64) * width**-0.5
        point = jax.tree.map(draw, (module, jnp.zeros((1, length, width))))
        direction, weights = jax.tree.map(draw, point), jax.random.normal(next(keys), (1, length, width), jnp.float64)
        value = jax.jit(lambda module, x: (module(x)[0] * weights).sum())
        along = lambda step: value(*jax.tree.map(lambda at, way: at + step * way, point, direction))
        derivative = jax.jvp(value, point, direction)[1]
        gradient = jax.grad(value, argnums=(0, 1))(*point)
        product = sum(jnp.vdot(*pair) for pair in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
        numeric = (along(1e-5) - along(-1e-5)) / 2e-5
        worst = max(abs(float(numeric - found)) for found in (derivative, product))
        return {"gradient_error": worst / abs(float(numeric))}
