"""The law that a convolution is hard attention (Cordonnier, Loukas & Jaggi 2020, arXiv 1911.03584, theorem 1)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.kernels import dot_product_attention
from attention_research.kernels.vision import head_offsets, offset_scores, offset_weights

from .attention import draw
from .law import Found, Law, gap

B, Y, X, C, F = 2, 6, 7, 3, 5
#: A sharpness at which the weights of soft heads equal those of hard heads after rounding to float64.
SHARP = 1e3
#: The filter whose heads are drawn: a Sobel filter.
SOBEL = np.array([[1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -1.0]])


def convolution(random: np.random.Generator) -> Found:
    """A K x K convolution equals the sum of K^2 heads, each with its own value matrix, with weight 1 on the pixel at
    its offset and 0 on all others. It also equals the sum of soft heads whose scores are very sharp. The controls leave
    out one head, or use soft heads of low sharpness."""
    size = int(random.choice([3, 5]))
    x, kernel = draw(random, B, Y, X, C), draw(random, size, size, C, F)
    offsets = head_offsets(size, size)
    weights = offset_weights(offsets, Y, X)
    expected = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    pixels, values = x.reshape(B, Y * X, C), kernel.reshape(-1, C, F)
    heads = jnp.einsum("nts,bsc,ncf->nbtf", weights.astype(x.dtype), pixels, values).reshape(-1, B, Y, X, F)
    entries = np.asarray(weights)
    inside = entries.sum(axis=-1)
    return Found(
        {
            "convolution - sum of heads": gap(expected, heads.sum(axis=0)),
            "weights that are neither 0 nor 1": float(np.abs(entries * (1 - entries)).max()),
            "more or less than one pixel a head": float(np.abs(inside * (1 - inside)).max()),
            "convolution - sharp soft heads": gap(expected, _soft(x, values, offsets, weights, SHARP)),
        },
        {
            "without a head": gap(expected, heads[1:].sum(axis=0)),
            "soft heads": gap(expected, _soft(x, values, offsets, weights, 0.1)),
        },
    )


def _soft(x: Any, values: Any, offsets: Any, weights: Any, sharpness: float) -> jax.Array:
    """Heads with a softmax over `-sharpness |k - q - offset|^2`. A head whose pixel is outside attends to nothing."""
    heads, pixels = len(offsets), x.reshape(B, Y * X, C)
    many = jnp.broadcast_to(pixels[:, :, None], (B, Y * X, heads, C))
    there = jnp.broadcast_to((weights.sum(axis=-1) > 0)[None, :, :, None], (1, heads, Y * X, Y * X))
    scores = offset_scores(offsets, Y, X, sharpness).astype(x.dtype)
    attended = dot_product_attention(jnp.zeros_like(many), many, many, scores, there, implementation="reference")
    return jnp.einsum("btnc,ncf->btf", attended, values).reshape(B, Y, X, F)


LAWS: dict[str, Law] = {"convolution-is-hard-attention": convolution}


def measure_heads(*, example: int = 0, pixel: tuple[int, int] = (4, 6), seed: int, **_: Any) -> dict[str, Any]:
    """Computes the data of the figure.

    "image" is a handwritten digit of 14 x 14 pixels. "maps" are the attention maps of the nine heads of the 3 x 3
    "filter" at the pixel "query". "output" is the sum of the heads, and "difference" its difference from a convolution.
    """
    from attention_research.data.pixels import Pixels

    del seed
    side = 14
    pixels = Pixels(max_length=side * side, shrink=2).arrays("test")["source"][example].reshape(side, side) - 1
    image = pixels / 255.0
    weights = np.asarray(offset_weights(head_offsets(3, 3), side, side))
    summed = np.einsum("nts,s,n->t", weights, image.reshape(-1), SOBEL.reshape(-1)).reshape(side, side)
    kernel = jnp.asarray(SOBEL, jnp.float32)[:, :, None, None]
    inputs = jnp.asarray(image, jnp.float32)[None, :, :, None]
    exact = jax.lax.conv_general_dilated(inputs, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    query = pixel[0] * side + pixel[1]
    return {
        "image": pixels.tolist(),
        "maps": weights[:, query].reshape(-1, side, side).tolist(),
        "query": list(pixel),
        "filter": SOBEL.tolist(),
        "output": summed.tolist(),
        "difference": gap(summed, exact[0, :, :, 0]),
    }
