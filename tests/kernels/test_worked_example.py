"""Softmax attention with one change, on one small example: 4 positions, 2 heads of width 4, values of width 2.

The numbers were computed from the papers' equations by float64 loops in NumPy that share no code with the kernels, and
most of these loops were compared with released code (entmax, x-transformers, flash-linear-attention).
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels import dot_product_attention
from attention_research.kernels.positions import contextual_attention, fire_bias, kerple_distance_bias
from attention_research.kernels.variants import (
    entmax15_attention,
    forgetting_attention,
    indexed_attention,
    length_scaled_attention,
    moba_attention,
    multi_token_attention,
    native_sparse_attention,
    path_attention,
    selective_attention,
    sparsemax_attention,
    stick_breaking_attention,
    talking_heads_attention,
    without_own_value,
)

R = np.random.default_rng(7)
SHAPES = {"q": (4, 2, 4), "k": (4, 2, 4), "v": (4, 2, 2), "f": (4, 2), "F": (4, 2, 4), "b": (4, 2), "w": (4, 2, 4),
          "a": (4, 2, 4), "gate": (4, 2, 2), "mix": (2, 2), "lam": (4, 2, 3)}  # fmt: skip
DRAWN = {name: np.float32(R.standard_normal(shape)) for name, shape in SHAPES.items()}


def fire(x):
    bias = fire_bias(jnp.float32(0.1), jnp.float32(2), x.w[0, 0, 0], x.w[0, 0, 1], x.F[0, :, :, 0], 4, 4)
    return dot_product_attention(*x.qkv, bias, is_causal=True)


def kerple(x):
    bias = kerple_distance_bias(jnp.array([1, 0.5]), jnp.array([0.5, 2]), 4, 4)
    return dot_product_attention(*x.qkv, is_causal=True, distance_bias=bias)


def talking_heads(x):
    return talking_heads_attention(*x.qkv, jnp.eye(2) + 0.1 * x.mix[0], jnp.eye(2) - 0.1 * x.mix[0], is_causal=True)


def path(x):
    direction = x.w / jnp.linalg.norm(x.w, axis=-1, keepdims=True)
    return path_attention(*x.qkv, direction, 2 * jax.nn.sigmoid(x.b), chunk_size=3)


def multi_token_kernel(x):
    """A correlation as in the released code: the present query is the last row. The kernel is turned for that."""
    kernel = 0.1 * x.F.reshape(-1)[:12].reshape(2, 2, 3) + jnp.array([[0, 0, 0], [0, 1.0, 0]])
    return kernel[:, ::-1, ::-1]


MADE = {
    "ssmax": lambda x: length_scaled_attention(*x.qkv, jnp.array([0.43, 1]), is_causal=True),
    "sparsemax": lambda x: sparsemax_attention(*x.qkv, is_causal=True),
    "entmax15": lambda x: entmax15_attention(*x.qkv, is_causal=True),
    "talking_heads": talking_heads,
    "selective": lambda x: selective_attention(*x.qkv),
    "cope": lambda x: contextual_attention(*x.qkv, x.F[0, :3, 0], is_causal=True),
    "fox": lambda x: forgetting_attention(*x.qkv, jax.nn.log_sigmoid(x.f)),
    "stick_breaking": lambda x: stick_breaking_attention(*x.qkv),
    "kerple": kerple,
    "fire": fire,
    "path": path,
    "mta": lambda x: multi_token_attention(*x.qkv, multi_token_kernel(x)),
    "nsa": lambda x: native_sparse_attention(*x.qkv, jax.nn.sigmoid(x.lam), block_size=2, num_blocks=1, window=1),
    "moba": lambda x: moba_attention(*x.qkv, block_size=2, top_k=1),
    "dsa": lambda x: indexed_attention(*x.qkv, x.w, x.a[:, :, 0], x.f, top_k=2),
    "xsa": lambda x: without_own_value(dot_product_attention(*x.qkv, is_causal=True), x.v),
}
#: Outputs [T N Hv] in one row of 16 numbers, positions slowest.
NUMBERS = """
ssmax: -0.579302 -0.196196 0.898764 1.145222 -0.899576 -0.453735 0.720953 -1.069924
    -0.865216 -0.424642 1.030723 0.749286 -1.005737 -0.572812 0.653156 0.925906
sparsemax: -0.579302 -0.196196 0.898764 1.145222 -0.601288 -0.213876 0.646903 -1.992420
    -1.201368 -0.696411 1.041199 0.963995 -1.323528 -0.794642 0.643609 1.190357
entmax15: -0.579302 -0.196196 0.898764 1.145222 -0.717939 -0.307677 0.672157 -1.677820
    -1.065255 -0.586411 1.052014 0.950236 -1.323528 -0.794642 0.651818 1.148433
talking_heads: -0.532698 -0.180412 0.914518 1.165296 -0.714663 -0.326734 0.720319 -1.254005
    -0.888656 -0.465703 1.032164 0.624649 -1.107483 -0.651508 0.644606 0.682596
selective: -0.579302 -0.196196 0.898764 1.145222 -0.788218 -0.364189 0.702394 -1.301127
    -0.953133 -0.495723 1.027556 0.712783 -1.018226 -0.575003 0.645758 1.015816
cope: -0.579302 -0.196196 0.898764 1.145222 -0.800263 -0.373875 0.689585 -1.460695
    -1.306087 -0.780544 0.915815 0.991689 -1.289757 -0.768149 0.949055 0.604096
fox: -0.579302 -0.196196 0.898764 1.145222 -0.876432 -0.435124 0.676423 -1.624664
    -0.886976 -0.441478 1.190290 0.639491 -1.054590 -0.624647 0.179419 1.220150
stick_breaking: 0.000000 0.000000 0.000000 0.000000 -0.375021 -0.127011 0.351342 0.447687
    -1.064269 -0.615480 0.534733 0.207367 -0.921079 -0.495048 0.925506 0.288372
kerple: -0.579302 -0.196196 0.898764 1.145222 -0.854105 -0.417171 0.682231 -1.552320
    -0.931412 -0.477764 1.098491 0.665141 -1.143592 -0.673253 0.442191 0.971105
fire: -0.579302 -0.196196 0.898764 1.145222 -0.820523 -0.390167 0.712896 -1.170298
    -0.936620 -0.482238 0.996463 0.754560 -1.173397 -0.688947 0.705009 0.784375
xsa: 0.000000 0.000000 0.000000 0.000000 -0.048127 0.080159 0.253244 0.082224
    0.059450 -0.283034 -0.062917 0.114719 -0.316888 0.281326 0.759377 0.124706
path: -0.579302 -0.196196 0.898764 1.145222 -0.774937 -0.353510 0.702462 -1.300277
    -0.986125 -0.522043 1.010924 0.687963 -1.125135 -0.651790 0.551621 0.690516
mta: -0.579302 -0.196196 0.898764 1.145222 -0.805520 -0.378102 0.703744 -1.284307
    -0.944153 -0.488540 1.002180 0.674148 -1.154111 -0.671311 0.675032 0.840208
nsa: -0.389635 -0.131960 0.852468 1.086231 -0.786347 -0.379918 0.764105 -1.138701
    -1.035363 -0.463227 0.940657 0.118597 -0.846024 -0.407694 0.850640 1.479286
moba: -0.579302 -0.196196 0.898764 1.145222 -0.788218 -0.364189 0.702394 -1.301127
    -0.463170 -0.097287 1.257015 0.689404 -0.421668 -0.180101 0.449662 1.136212
dsa: -0.579302 -0.196196 0.898764 1.145222 -0.788218 -0.364189 0.702394 -1.301127
    -1.071895 -0.592300 0.865378 0.729307 -1.251786 -0.736493 1.070305 -0.131303
"""
EXPECTED = {name: np.float64(numbers.split()) for name, numbers in re.findall(r"(\w+):([^:a-z]+)", NUMBERS)}


def test_the_example_is_drawn_as_when_the_numbers_were_computed():
    np.testing.assert_allclose(DRAWN["q"][0, 0], [0.001230, 0.298746, -0.274138, -0.890592], atol=1e-6)
    np.testing.assert_allclose(DRAWN["lam"][3, 1], [0.339756, 2.025161, -1.392789], atol=1e-6)
    assert MADE.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", MADE)
def test_a_mechanism_gives_the_numbers_of_the_example(name):
    @jax.jit
    def call(arrays):
        arrays = {one: x[None] for one, x in arrays.items()}  # a batch of one
        return MADE[name](SimpleNamespace(**arrays, qkv=(arrays["q"], arrays["k"], arrays["v"])))

    np.testing.assert_allclose(np.ravel(call(DRAWN)), EXPECTED[name], atol=2e-6)
