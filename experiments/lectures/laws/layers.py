"""Laws of attention layers: projections, heads, mixing in a block, and memory (Vaswani et al. 2017, section 3).

The layers are those of the package, with random parameters and in float64.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import attend, dot_scores, sinusoidal_positions
from attention_research.kernels.scores import scaled_dot_scores
from attention_research.layers.attention.multi_head import Where
from attention_research.registry import lookup

from .attention import by_hand, draw
from .law import Found, Law, gap, largest

B, T, S, D, N = 2, 4, 5, 12, 3
Random = np.random.Generator


def make(random: Random, family: str = "encoder_attention", kind: str = "standard", **settings: Any) -> Any:
    """Builds a layer of the registry with random parameters in float64."""
    layer = lookup(family, kind)(**settings, rngs=nnx.Rngs(0))
    draws = lambda x: draw(random, *x.shape) * x.shape[0] ** -0.5
    return jax.tree.map(draws, layer)


def attention(random: Random, **changed: Any) -> Any:
    """Multi-head attention with three heads of width four."""
    return make(random, **{"width": D, "num_heads": N, "head_width": None, **changed})


def equivariant(random: Random) -> Found:
    """Permuting the inputs permutes the outputs in the same way, unless positions are added to the inputs."""
    layer, x = attention(random), draw(random, B, T, D)
    order = np.roll(np.arange(T), int(random.integers(1, T)))
    places = sinusoidal_positions(T, D).astype(x.dtype)
    of = lambda x: layer(x)[0]
    return Found(
        {"permuted": gap(of(x[:, order]), of(x)[:, order])},
        {"permuted, with positions": gap(of(x[:, order] + places), of(x + places)[:, order])},
    )


def self_is_general(random: Random) -> Found:
    """Self-attention equals general attention whose queries, keys and values come from one sequence."""
    layer, x, other = attention(random), draw(random, B, T, D), draw(random, B, S, D)
    key, value = layer.keys_values(x)
    by_queries = []
    for head in range(N):
        scores = scaled_dot_scores(layer.queries(x)[:, :, head], key[:, :, head])
        by_queries.append(by_hand(scores, value[:, :, head]))
    general = layer.finish(jnp.asarray(np.stack(by_queries, axis=2)))
    return Found(
        {"of its own queries, keys and values": gap(layer(x)[0], general),
         "over itself": gap(layer(x)[0], layer(x, x)[0])},
        {"over another memory": gap(layer(x)[0], layer(x, other)[0])},
    )  # fmt: skip


def heads(random: Random) -> Found:
    """Multi-head attention equals single heads, concatenated and multiplied by the output matrix. The context of a head
    does not depend on the weights of another head."""
    layer, x = attention(random, use_bias=False), draw(random, B, T, D)
    width = D // N
    alone = []
    for head in range(N):
        part = slice(head * width, (head + 1) * width)
        query, key, value = (x @ one.kernel[...][:, part] for one in (layer.query, layer.key, layer.value))
        alone.append(by_hand(scaled_dot_scores(query, key), value))
    joined = np.concatenate(alone, axis=-1) @ np.asarray(layer.output.kernel[...])

    def contexts(kernel: Float[Array, "D W"]) -> Float[Array, "B T N H"]:
        query = (x @ kernel).reshape(B, T, N, width)
        return layer.mix(query, *layer.keys_values(x), Where())[0]

    jacobian = np.asarray(jax.jacobian(contexts)(layer.query.kernel[...])).reshape(B * T, N, width, D, N, width)
    moved = [[largest(jacobian[:, one, :, :, other]) for other in range(N)] for one in range(N)]
    across = max(moved[one][other] for one in range(N) for other in range(N) if one != other)
    return Found(
        {"together - alone": gap(layer(x)[0], joined), "another head's weights": across},
        {"its own weights": min(moved[head][head] for head in range(N))},
    )


def head_width(random: Random) -> Found:
    """For every number of heads that divides the width 60, with heads of width 60 / heads, a layer has `4 D^2`
    parameters and outputs of width D."""
    del random  # counted from shapes
    width, zero = 60, {}
    x = jax.ShapeDtypeStruct((1, 2, width), jnp.float32)

    def counted(**settings: Any) -> tuple[int, tuple[int, ...]]:
        build = lambda: lookup("encoder_attention", "standard")(
            width=width, use_bias=False, rngs=nnx.Rngs(0), **settings
        )
        layer = jax.eval_shape(build)
        shape = jax.eval_shape(lambda layer, x: layer(x)[0], layer, x).shape
        return sum(leaf.size for leaf in jax.tree.leaves(layer)), shape

    for number in (n for n in range(1, width + 1) if width % n == 0):
        count, shape = counted(num_heads=number, head_width=None)
        zero[f"{number} heads"] = abs(count - 4 * width**2) + float(shape != x.shape)
    wide, _ = counted(num_heads=4, head_width=width)
    return Found(zero, {"4 heads as wide as the model": wide / (4 * width**2) - 1})


def only_attention_mixes(random: Random) -> Found:
    """In normalization and feed-forward layers an output has no gradient from other tokens; in attention it has."""
    x = draw(random, 1, T, D)
    parts = {
        "norm": make(random, "norm", "layer_norm", width=D),
        "feed-forward": make(random, "feed_forward", "dense", width=D, hidden_width=2 * D),
        "attention": attention(random),
    }

    def across(module: Any) -> tuple[float, float]:
        of = lambda x: module(x)[0] if isinstance(module(x), tuple) else module(x)
        jacobian = np.asarray(jax.jacobian(of)(x))[0, :, :, 0]  # [T D T D]
        pairs = [largest(jacobian[t, :, u]) for t in range(T) for u in range(T) if t != u]
        return max(pairs), min(pairs)

    zero = {name: across(parts[name])[0] for name in ("norm", "feed-forward")}
    return Found(zero, {"attention": across(parts["attention"])[1]})


def memory(random: Random) -> Found:
    """Cross-attention reads a memory only through its keys and values. Cached keys and values give the same output,
    with one vector for each query. If both projections are zero, the memory does not change the output; otherwise it
    does.
    """
    layer, x, encoded = attention(random, use_bias=False), draw(random, B, T, D), draw(random, B, S, D)
    fresh, recalled = layer(x, encoded)[0], layer.attend_cached(x, layer.cache_memory(encoded, mask=None))[0]
    silent = jax.tree.map(lambda leaf: leaf, layer)
    for part in (silent.key, silent.value):
        part.kernel[...] = jnp.zeros_like(part.kernel[...])
    return Found(
        {"kept - read anew": gap(fresh, recalled), "one vector a query": float(fresh.shape != (B, T, D)),
         "past keys and values": gap(silent(x, encoded)[0], silent(x, encoded + 1)[0])},
        {"another memory": gap(fresh, layer(x, encoded + 1)[0])},
    )  # fmt: skip


def parameters(random: Random) -> Found:
    """`softmax(X X^T) X` has no parameters. Projections of queries, keys and values are three matrices with `3 D^2`
    parameters; the output projection is a fourth matrix."""
    layer, x = attention(random, num_heads=1, use_bias=False), draw(random, B, T, D)
    three = sum(one.kernel[...].size for one in (layer.query, layer.key, layer.value))
    every = sum(leaf.size for leaf in jax.tree.leaves(layer))
    return Found(
        {"softmax(X X^T) X - by hand": gap(attend(dot_scores(x, x), x)[0], by_hand(dot_scores(x, x), x)),
         "three matrices": float(abs(three - 3 * D**2)), "and the output's": float(abs(every - 4 * D**2))},
    )  # fmt: skip


def embedding(random: Random) -> Found:
    """Looking up a row of a table equals multiplying the table by a one-hot vector. Only this row gets a gradient."""
    table, ids = draw(random, 9, D), jnp.asarray(random.integers(0, 9, (B, T)))
    ones, direction = jnp.asarray(np.eye(9)[np.asarray(ids)]), draw(random, B, T, D)
    looked_up = jax.grad(lambda table: jnp.sum(table[ids] * direction))(table)
    multiplied = jax.grad(lambda table: jnp.sum((ones @ table) * direction))(table)
    unread = np.setdiff1d(np.arange(9), np.asarray(ids))
    return Found(
        {"lookup - one-hot": gap(table[ids], ones @ table), "gradients": gap(looked_up, multiplied),
         "rows that nobody read": largest(looked_up[unread])},
        {"rows that were read": largest(looked_up)},
    )  # fmt: skip


LAWS: dict[str, Law] = {
    "embedding-is-lookup": embedding,
    "self-attention-equivariant": equivariant,
    "self-is-general-with-own-queries": self_is_general,
    "heads-concatenate-and-project": heads,
    "head-width-keeps-cost": head_width,
    "block-interacts-only-by-attention": only_attention_mixes,
    "cross-attention-memory": memory,
    "basic-has-no-parameters": parameters,
}
