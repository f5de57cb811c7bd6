"""Attention as a gate: it multiplies tokens with one another, which no fixed mixing of positions can do.

There are three ways to mix T tokens of width D:

- self-attention with learned queries, keys and values;
- a learned matrix over positions, `sum_s M_ts x_s W` (the random Synthesizer of Tay et al. 2021 without its softmax;
  the spatial part of an MLP-Mixer);
- the same times a gate of the token itself, `(sum_s M_ts x_s W) * x_t U` (Liu et al. 2021, gMLP, arXiv 2105.08050,
  equation 4).

In the product task each token has a key, a query and a value. The target of token t is sum_s (q_t . k_s) v_s, a product
of features of two tokens: with one-hot keys and queries, the value of the token whose key it asks for. A linear map
reads the output of the mixer.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.linear import Linear
from attention_research.training.fitting import fit_best

from .attention import draw
from .law import Found, Law

MIXERS = ("attention", "gated", "ungated")
#: The number of examples for an error.
TEST = 2048
Tokens = Float[Array, "B T D"]


class Mixer(nnx.Module):
    """A mixer from x [B T D] to [B T D]. Raises ValueError for an unknown kind."""

    def __init__(self, kind: str, *, length: int, width: int, num_heads: int = 1, rngs: nnx.Rngs):
        if kind not in MIXERS:
            raise ValueError(f"{kind!r}: expected one of {', '.join(MIXERS)}")
        settings: dict[str, Any] = {"width": width, "num_heads": num_heads, "head_width": None, "rngs": rngs}
        self.attention = StandardAttention(**settings) if kind == "attention" else None
        normal = jax.random.normal(rngs.params(), (length, length), jnp.float32)
        self.places: Any = None if kind == "attention" else nnx.Param(normal * length**-0.5)
        self.mixed: Any = None if kind == "attention" else Linear(width, width, rngs=rngs)
        self.gate = Linear(width, width, rngs=rngs) if kind == "gated" else None
        self.output = Linear(width, width, rngs=rngs)

    def __call__(self, x: Tokens) -> Tokens:
        if self.attention is not None:
            return self.output(self.attention(x)[0])
        y = jnp.einsum("ts,bsd->btd", self.places[...].astype(x.dtype), self.mixed(x))
        return self.output(y if self.gate is None else y * self.gate(x))


def interactions(random: np.random.Generator) -> Found:
    """The mixed second derivative `d^2 y_t / d x_s d x_u` with respect to two tokens s and u is exactly 0 for fixed
    mixing. It is not 0 for a gate or for attention."""
    found = {}
    x = draw(random, 1, 3, 4)
    for kind in MIXERS:
        mixer = Mixer(kind, length=3, width=4, rngs=nnx.Rngs(0))
        mixer = jax.tree.map(lambda leaf: draw(random, *leaf.shape) * 0.7, mixer)
        second = np.asarray(jax.hessian(lambda x, mixer=mixer: mixer(x)[0])(x))[:, :, 0, :, :, 0]  # [T D T D T D]
        found[kind] = max(float(np.abs(second[:, :, s, :, u]).max()) for s in range(3) for u in range(3) if s != u)
    return Found({"ungated": found["ungated"]}, {kind: found[kind] for kind in ("attention", "gated")})


def measure_product(
    *,
    mixer: str,
    length: int,
    width: int,
    num_heads: int,
    steps: int,
    batch_size: int,
    rates: tuple[float, ...],
    seed: int,
    **_: Any,
) -> dict[str, Any]:
    """Trains a mixer on the product task with each of `rates` and keeps the best one on validation sequences.

    Returns "error" on test sequences divided by the variance of the target; "rate" (None: no rate ends with a finite
    error); and "parameters". The keys of a sequence are all different.
    """
    task, trained, tested, validated = jax.random.split(jax.random.key(seed), 4)
    matrix, features = jax.random.normal(task, (width, width)) * width**-0.5, 2 * length + width

    def examples(key: Key[Array, ""], count: int) -> tuple[Tokens, Tokens]:
        of_keys, of_queries, of_values = jax.random.split(key, 3)
        keys = jax.nn.one_hot(jnp.argsort(jax.random.uniform(of_keys, (count, length)), axis=-1), length)
        queries = jax.nn.one_hot(jax.random.randint(of_queries, (count, length), 0, length), length)
        values = jax.random.normal(of_values, (count, length, width))
        target = jnp.einsum("bti,bsi,bsd->btd", queries, keys, values @ matrix)
        return jnp.concatenate([keys * length**0.5, queries * length**0.5, values], axis=-1), target

    class Reader(nnx.Module):
        def __init__(self, *, rngs: nnx.Rngs):
            self.mixer = Mixer(mixer, length=length, width=features, num_heads=num_heads, rngs=rngs)
            self.output = Linear(features, width, rngs=rngs)

        def __call__(self, x: Float[Array, "B T E"]) -> Tokens:
            return self.output(self.mixer(x))

    def loss(reader: Reader, batch: tuple[Array, Array]) -> Float[Array, ""]:
        return jnp.mean(jnp.square(reader(batch[0]) - batch[1])) / jnp.var(batch[1])

    make, batches = lambda rngs: Reader(rngs=rngs), lambda key: examples(key, batch_size)
    error = jax.jit(lambda reader, key: loss(reader, examples(key, TEST)))
    validate = lambda reader: error(reader, validated)
    best = fit_best(make, loss, batches, validate, trained, steps=steps, rates=rates)
    if best is None:
        return {"error": None, "rate": None, "parameters": None}
    return {"error": float(error(best.module, tested)), "rate": best.rate, "parameters": best.parameters}


LAWS: dict[str, Law] = {"gating-interactions": interactions}
