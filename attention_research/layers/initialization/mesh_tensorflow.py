"""How Mesh TensorFlow's Transformer starts, T5's (Raffel et al. 2020, arXiv 1910.10683) and Narang et al. 2021's.

In layers of width D with N heads of width H (standard deviations; not by a paper's equation but as released):

* queries N(0, (D H)^-1/2): the scale H^-1/2 of attention's logits is folded into them, and attention is unscaled;
* keys and values N(0, D^-1/2), the output projection N(0, (N H)^-1/2);
* every other dense kernel a normal of (variance / fan_in)^1/2 cut off at two of these, which leaves 0.88 of it;
* the table of relative position biases Glorot uniform over [N, buckets].

Biases, gains, embeddings, and whatever else is neither a `Linear` nor a `T5Bias` start as their own kinds say.
"""

from __future__ import annotations

import math
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.layers.attention.t5 import T5Bias
from attention_research.layers.initialization.redraw import redraw
from attention_research.layers.linear import Linear
from attention_research.signatures import PositiveFloat

PROJECTIONS = ("query", "key", "value", "output")


class MeshTensorFlow:
    """For unscaled attention. `dense_variance` is 0.1 where the released configurations have experts, else 1."""

    def __init__(self, *, dense_variance: PositiveFloat = 1.0):
        self.dense_variance = dense_variance

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Draws the parameters of the module anew."""

        def draw(name: str, value: Array, key: Array) -> Array:
            return start(module, name, value, key, dense_variance=self.dense_variance, query_scaled=True)

        redraw(module, draw, rngs)


def start(
    module: nnx.Module, name: str, value: Array, key: Array, *, dense_variance: float, query_scaled: bool
) -> Array:
    """The start of a parameter by its owner; `query_scaled` says whether H^-1/2 is folded into the queries.

    Weights are the last two axes: those of layers and experts before them change nothing.
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


def owners(module: nnx.Module, name: str) -> list[nnx.Module]:
    """The modules on the way from `module` to the parameter of this name, both ends included."""
    found: list[Any] = [module]
    for part in name.split(".")[:-1]:
        found.append(found[-1][int(part)] if part.isdigit() else getattr(found[-1], part))
    return found


def truncated_normal(key: Array, value: Array, deviation: float) -> Array:
    """N(0, deviation^2) cut off at two deviations."""
    return jax.random.truncated_normal(key, -2.0, 2.0, value.shape, value.dtype) * deviation
