"""The initialization of Mesh TensorFlow's Transformer: T5 (Raffel et al. 2020, arXiv 1910.10683), Narang et al. 2021.

It follows the released code, not an equation of a paper. For layers of width D with N heads of width H, the second
argument of N(0, .) being the standard deviation:

* queries are N(0, (D H)^-1/2): the scale H^-1/2 of the logits is folded into them, and attention is not scaled;
* keys and values are N(0, D^-1/2), and the output projection is N(0, (N H)^-1/2);
* other dense kernels are N(0, (variance / fan_in)^1/2), truncated at two standard deviations, which reduces the
  standard deviation to 0.88 of this value;
* the table of relative position biases is Glorot uniform over [N, buckets].

Parameters that belong neither to a `Linear` nor to a `T5Bias` (biases, gains, embeddings) keep their own
initialization.
"""

from __future__ import annotations

import math

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.layers.attention.t5 import T5Bias
from attention_research.layers.initialization.redraw import owners, redraw
from attention_research.layers.linear import Linear
from attention_research.signatures import PositiveFloat

PROJECTIONS = ("query", "key", "value", "output")


class MeshTensorFlow:
    """The initialization for unscaled attention.

    In the released configurations, `dense_variance` is 0.1 for models with experts, else 1.
    """

    def __init__(self, *, dense_variance: PositiveFloat = 1.0):
        self.dense_variance = dense_variance

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of the parameters of the module."""

        def draw(name: str, value: Array, key: Array) -> Array:
            return start(module, name, value, key, dense_variance=self.dense_variance, query_scaled=True)

        redraw(module, draw, rngs)


def start(
    module: nnx.Module, name: str, value: Array, key: Array, *, dense_variance: float, query_scaled: bool
) -> Array:
    """The initial value of a parameter, which depends on the module that owns it.

    If `query_scaled`, the scale H^-1/2 is folded into the queries. Fan-in and fan-out are the last two axes; leading
    axes of layers and experts have no effect.
    """
    *above, owner = owners(module, name)
    if isinstance(owner, T5Bias):
        limit = math.sqrt(6 / sum(value.shape[-2:]))
        return jax.random.uniform(key, value.shape, value.dtype, -limit, limit)
    if name.startswith("vocabulary.") or not (isinstance(owner, Linear) and name.endswith(".kernel")):
        return value
    fan_in, projection = value.shape[-2], name.split(".")[-2]
    head_width = getattr(above[-1], "head_width", None)
    if head_width is None or projection not in PROJECTIONS:
        return truncated_normal(key, value, math.sqrt(dense_variance / fan_in))
    folded = head_width if projection == "query" and query_scaled else 1
    return jax.random.normal(key, value.shape, value.dtype) * (fan_in * folded) ** -0.5


def truncated_normal(key: Array, value: Array, deviation: float) -> Array:
    """Samples N(0, deviation^2), truncated at two standard deviations."""
    return jax.random.truncated_normal(key, -2.0, 2.0, value.shape, value.dtype) * deviation
