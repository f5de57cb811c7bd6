"""The layers that Vaswani et al. 2017, Table 1, compares. Each maps a sequence [B T D] to a sequence of the same size.

Each layer is built from kernels and modules of this package, with weights, so that it can be counted, timed and traced.

- `attention_core`: the published n^2 d, softmax(X X^T / sqrt(H)) X of every head, without projections.
- `restricted_core`: the same, restricted to `neighbourhood` positions around each position.
- `attention`: with projections; the kernel chooses the implementation.
- `attention_dense`: with projections, with all T x T scores in memory.

Convolutions are centred. `dilated` skips `dilation` - 1 positions between two that it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.accounting.flops import count_flops
from attention_research.accounting.operations import count_operations
from attention_research.kernels import dot_product_attention, sequence_convolution, sliding_window_attention
from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.convolution.separable import SeparableConvolution
from attention_research.layers.recurrent.scan import run
from attention_research.registry import lookup

CELLS = {"rnn": "vanilla", "gru": "gru", "lstm": "lstm"}
KINDS = (
    "attention_core", "attention", "attention_dense", "restricted_core", *CELLS, "convolution", "dilated", "separable",
)  # fmt: skip


class Sizes(NamedTuple):
    """The sizes of a layer. `neighbourhood` is the r of Table 1 and `kernel_width` its k; both must be odd."""

    width: int
    num_heads: int = 8
    kernel_width: int = 3
    neighbourhood: int = 33
    dilation: int = 1


class SequenceLayer(NamedTuple):
    """Functions of a layer.

    `make` builds the module, `apply` applies it to a sequence, and `cell` is the step of a recurrence, from (module, x,
    state) to the next state.
    """

    make: Callable[[nnx.Rngs], Any]
    apply: Callable[[Any, Float[Array, "B T D"]], Float[Array, "B T D"]]
    cell: Callable[[Any, Array, Any], Any] | None = None


class Weights(nnx.Module):
    """One weight of the given shape, drawn from N(0, 1 / fan-in)."""

    def __init__(self, shape: tuple[int, ...], *, rngs: nnx.Rngs):
        start = jax.nn.initializers.lecun_normal(in_axis=tuple(range(len(shape) - 1)))
        self.kernel = nnx.Param(start(rngs.params(), shape, jnp.float32))


def sequence_layer(kind: str, sizes: Sizes) -> SequenceLayer:
    """Returns one of `KINDS`. Raises ValueError for another kind."""
    D, N, W = sizes.width, sizes.num_heads, sizes.kernel_width
    if kind in ("attention", "attention_dense"):
        how: Literal["reference"] | None = "reference" if kind == "attention_dense" else None
        make = lambda rngs: StandardAttention(width=D, num_heads=N, head_width=None, implementation=how, rngs=rngs)
        return SequenceLayer(make, lambda module, x: module(x)[0])
    if kind in ("attention_core", "restricted_core"):
        window = None if kind == "attention_core" else sizes.neighbourhood // 2
        return SequenceLayer(lambda rngs: (), lambda _, x: _core(x, N, window))
    if kind in CELLS:
        make = lambda rngs: lookup("recurrent_cell", CELLS[kind])(width=D, input_width=D, rngs=rngs)
        outputs = lambda cell, x: run(cell, x, cell.initial(x.shape[0], x.dtype))[0]
        return SequenceLayer(make, outputs, lambda cell, x, state: cell(x, state))
    if kind in ("convolution", "dilated"):
        gap = sizes.dilation if kind == "dilated" else 1
        return SequenceLayer(lambda rngs: Weights((W, D, D), rngs=rngs), lambda module, x: _convolved(module, x, gap))
    if kind == "separable":
        make = lambda rngs: SeparableConvolution(D, D, W, rngs=rngs)
        return SequenceLayer(make, lambda module, x: module(x))
    raise ValueError(f"{kind!r}: expected one of {', '.join(KINDS)}")


def _core(x: Float[Array, "B T D"], num_heads: int, window: int | None) -> Float[Array, "B T D"]:
    heads = x.reshape(*x.shape[:2], num_heads, -1)
    if window is None:
        return dot_product_attention(heads, heads, heads).reshape(x.shape)
    return sliding_window_attention(heads, heads, heads, window=window).reshape(x.shape)


def _convolved(module: Weights, x: Float[Array, "B T D"], dilation: int) -> Float[Array, "B T D"]:
    """Convolution of every `dilation`-th position: the sequence is split into `dilation` interleaved sequences."""
    kernel = module.kernel[...]
    B, T, D = x.shape
    x = jnp.pad(x, [(0, 0), (0, -T % dilation), (0, 0)])
    apart = x.reshape(B, -1, dilation, D).swapaxes(1, 2).reshape(B * dilation, -1, D)
    y = sequence_convolution(apart, kernel, left=kernel.shape[0] // 2)
    return y.reshape(B, dilation, -1, D).swapaxes(1, 2).reshape(B, -1, D)[:, :T]


def abstract_call(kind: str, sizes: Sizes, length: int) -> tuple[Callable[..., Array], tuple[Any, Any]]:
    """Returns (function, shapes of its module and of one sequence) for counting; nothing is allocated."""
    layer = sequence_layer(kind, sizes)
    module = jax.eval_shape(lambda: layer.make(nnx.Rngs(0)))
    return layer.apply, (module, jax.ShapeDtypeStruct((1, length, sizes.width), jnp.float32))


def multiply_adds(kind: str, sizes: Sizes, length: int) -> int:
    """The multiply-adds of the forward pass: matrix products, convolutions and elementwise products."""
    function, shapes = abstract_call(kind, sizes, length)
    return count_flops(function, *shapes).matmul // 2 + count_operations(function, *shapes).elementwise


def formula(kind: str, sizes: Sizes, length: int) -> int:
    """The multiply-adds of the layer's products by the formula in the literature."""
    n, d, k, r = length, sizes.width, sizes.kernel_width, sizes.neighbourhood
    products = {"rnn": 2, "gru": 6, "lstm": 8}
    return {
        "attention_core": 2 * n * n * d,
        "attention": 2 * n * n * d + 4 * n * d * d,
        "attention_dense": 2 * n * n * d + 4 * n * d * d,
        "restricted_core": 2 * r * n * d,
        **{cell: count * n * d * d for cell, count in products.items()},
        "convolution": k * n * d * d,
        "dilated": k * n * d * d,
        "separable": k * n * d + n * d * d,
    }[kind]
