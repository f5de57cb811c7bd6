"""Laws of the causal mask (Vaswani et al. 2017, section 3.2.3): future positions get no weight, and one pass computes
all steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.accounting.clock import measure_call
from attention_research.kernels import causal_mask

from .attention import draw, softmax
from .law import Found, Law, gap, largest
from .layers import N, attention, make

B, T, D = 2, 4, 12
Random = np.random.Generator


def minus_infinity(random: Random) -> Found:
    """With scores of future positions at minus infinity, their weights and all gradients from them are exactly 0. The
    other weights are the softmax over the past. Without the mask the gradients from the future are not 0."""
    layer, x = attention(random), draw(random, B, T, D)
    future = np.triu(np.ones((T, T), bool), 1)
    masked = lambda x: layer(x, is_causal=True)
    context, aux = masked(x)
    key, _ = layer.keys_values(x)
    scores = np.einsum("btnh,bsnh->bnts", layer.queries(x), key) / np.sqrt(D // N)
    by_hand = softmax(np.where(future, -np.inf, scores))

    def ahead(of: Any) -> float:
        jacobian = np.asarray(jax.jacobian(lambda x: of(x)[0][0])(x))[:, :, 0]  # [T D T D]
        return largest(jacobian.transpose(0, 2, 1, 3)[future])

    return Found(
        {"weights of the future": largest(np.asarray(aux["attention_weights"])[..., future]),
         "gradients from the future": ahead(masked), "weights - by hand": gap(aux["attention_weights"], by_hand)},
        {"without the mask": ahead(layer)},
    )  # fmt: skip


def truncation(random: Random) -> Found:
    """One masked pass of a block equals computing each step from its past only. Without the mask it does not."""
    block, x = decoder_block(random), draw(random, B, T, D)
    whole = block(x, True)
    steps = [block(x[:, : t + 1], False)[:, -1] for t in range(T)]
    alone = jnp.stack(steps, axis=1)
    return Found({"one pass - step by step": gap(whole, alone)}, {"unmasked": gap(block(x, False), alone)})


def encoder(random: Random) -> Found:
    """The decoder's self-attention with a mask that hides nothing equals the encoder's with the same weights."""
    settings: dict[str, Any] = {"width": D, "num_heads": N, "head_width": None}
    ours, x = make(random, "encoder_attention", **settings), draw(random, B, T, D)
    theirs = jax.tree.unflatten(jax.tree.structure(make(random, "causal_attention", **settings)), jax.tree.leaves(ours))
    seen = jnp.ones((B, 1, T, T), bool)
    causal = causal_mask(T, T) & seen
    return Found(
        {"mask that hides nothing": gap(ours(x)[0], theirs(x, mask=seen)[0]),
         "causal mask - causal layer": gap(ours(x, mask=causal)[0], theirs(x, is_causal=True)[0])},
        {"causal": gap(ours(x)[0], theirs(x, is_causal=True)[0])},
    )  # fmt: skip


def decoder_block(random: Random) -> Any:
    """Returns a pre-norm block, a function of (x, whether to mask): x + attention, then x + feed-forward."""
    layer, norms = attention(random), [make(random, "norm", "layer_norm", width=D) for _ in range(2)]
    feed_forward = make(random, "feed_forward", "dense", width=D, hidden_width=2 * D)

    def apply(x: Any, is_causal: bool) -> Any:
        x = x + layer(norms[0](x), is_causal=is_causal)[0]
        return x + feed_forward(norms[1](x))[0]

    return apply


def measure_truncation(*, lengths: Sequence[int], width: int, num_heads: int, seconds: float, seed: int, **_: Any
                       ) -> dict[str, Any]:  # fmt: skip
    """Times one masked pass against one pass for each step over its past only, by length.

    Returns the milliseconds "masked" and "truncated", their "ratios" (truncated / masked), and "ratio", the last of
    them. The truncated passes have static shapes and are compiled together into one program.
    """
    with jax.enable_x64(True):
        random = np.random.default_rng(seed)
        layer = make(random, width=width, num_heads=num_heads, head_width=None)
    layer = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), layer)

    def masked(layer: Any, x: Any) -> Any:
        return layer(x, is_causal=True)[0]

    def truncated(layer: Any, x: Any) -> Any:
        return jnp.concatenate([layer(x[:, : t + 1])[0][:, -1:] for t in range(x.shape[1])], axis=1)

    found: dict[str, list[float]] = {"masked": [], "truncated": []}
    for length in lengths:
        x = jnp.asarray(random.standard_normal((1, length, width)), jnp.float32)
        for name, function in (("masked", masked), ("truncated", truncated)):
            found[name].append(measure_call(function, layer, x, seconds=seconds, repeats=3)["milliseconds"])
    ratios = [slow / fast for slow, fast in zip(found["truncated"], found["masked"], strict=True)]
    return {**found, "ratios": ratios, "ratio": ratios[-1]}


LAWS: dict[str, Law] = {
    "mask-to-minus-infinity": minus_infinity,
    "mask-equals-truncation": truncation,
    "encoder-is-unmasked-decoder": encoder,
}
