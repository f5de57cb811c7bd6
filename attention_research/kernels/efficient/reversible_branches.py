"""Reversible layers of any number of branches, Gomez et al. 2017 (arXiv 1707.04585): (x1, x2) <- (x2, x1 + f(x2)) for
each branch f.

With two branches f and g this is y1 = x1 + f(x2), y2 = x2 + g(y1) (`kernels.reversible_layers`). The branches also
return aux, and layers and inputs are pytrees of any arrays, as the layers of a model need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

Pair = tuple[Float[Array, "B T D"], Float[Array, "B T D"]]
Pairs = tuple[Float[Array, "L B T D"], Float[Array, "L B T D"]]
#: f(layer, shared, x) -> (value with x's shape and dtype, aux).
Branch = Callable[[Any, Any, Array], tuple[Array, Any]]


def reversible_branches(
    x1: Float[Array, "B T D"], x2: Float[Array, "B T D"], layers: Any, shared: Any, *, branches: Sequence[Branch]
) -> tuple[Pair, tuple[Any, Pairs]]:
    """((y1, y2), (the aux of each branch [L ...], the pairs after each layer [L B T D])).

    `layers` is a pytree of arrays with a leading axis L, `shared` a pytree that all layers get. The gradient calls the
    branches again, so they must be pure, and everything that is differentiated must be in `layers` or `shared`. It
    keeps the outputs of the last layer alone, and recomputes the inputs of a layer from its outputs.

    >>> x, scale = jnp.ones((1, 1, 1)), lambda layer, shared, x: (layer * x, ())
    >>> (y1, y2), _ = reversible_branches(x, x, jnp.array([1.0, 1.0]), (), branches=[scale, scale])
    >>> y1.item(), y2.item()  # (1, 1) -> (2, 3) -> (5, 8)
    (5.0, 8.0)
    """
    of_layers, of_all = _Parted(layers), _Parted(shared)
    run = partial(_layers, branches, of_layers, of_all)
    fast = jax.custom_vjp(run)
    fast.defvjp(partial(_forward, run), partial(_backward, branches, of_layers, of_all), symbolic_zeros=True)
    return fast(of_layers.floats, of_layers.others, of_all.floats, of_all.others, x1, x2)


class _Parted:
    """The arrays of a pytree: floating-point ones, which have gradients, and all others."""

    def __init__(self, tree: Any):
        leaves, self.structure = jax.tree.flatten(tree)
        array = [isinstance(leaf, jax.Array) or hasattr(leaf, "dtype") for leaf in leaves]
        floating = [
            found and jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf, found in zip(leaves, array, strict=True)
        ]
        self.floats = [leaf for leaf, found in zip(leaves, floating, strict=True) if found]
        self.others = [leaf for leaf, a, f in zip(leaves, array, floating, strict=True) if a and not f]
        self.kinds = ["float" if f else "other" if a else "static" for a, f in zip(array, floating, strict=True)]
        self.static = [None if found else leaf for leaf, found in zip(leaves, array, strict=True)]

    def joined(self, floats: list[Array], others: list[Array]) -> Any:
        """The pytree with other arrays."""
        given = {"float": iter(floats), "other": iter(others)}
        leaves = [
            static if kind == "static" else next(given[kind])
            for kind, static in zip(self.kinds, self.static, strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)


def _layers(
    branches: Sequence[Branch], of_layers: _Parted, of_all: _Parted, floats: list[Array], others: list[Array],
    shared: list[Array], constant: list[Array], x1: Array, x2: Array,
) -> tuple[Pair, tuple[Any, Pairs]]:  # fmt: skip
    everywhere = of_all.joined(shared, constant)

    def layer(pair: Pair, one: tuple[list[Array], list[Array]]) -> tuple[Pair, tuple[Any, Pair]]:
        own, (x1, x2), collected = of_layers.joined(*one), pair, []
        for branch in branches:
            y, aux = branch(own, everywhere, x2)
            x1, x2 = x2, x1 + y
            collected.append(aux)
        return (x1, x2), (tuple(collected), (x1, x2))

    return lax.scan(layer, (x1, x2), (floats, others))


def _forward(run: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    values = jax.tree.map(lambda one: one.value, arguments)
    pair, collected = run(*values)
    return (pair, collected), (*values[:4], pair)


def _live(cotangent: Any) -> bool:
    """Whether an output is differentiated."""
    return not isinstance(cotangent, SymbolicZero) and cotangent.dtype != jax.dtypes.float0


def _backward(branches: Sequence[Branch], of_layers: _Parted, of_all: _Parted, kept: Any, cotangents: Any) -> Any:
    floats, others, shared, constant, pair = kept
    of_pair, (of_aux, after) = cotangents
    zero = lambda x: isinstance(x, SymbolicZero)
    start = tuple(d if _live(d) else jnp.zeros_like(y) for d, y in zip(of_pair, pair, strict=True))
    aux = [jax.tree.leaves(one, is_leaf=zero) for one in of_aux]
    live = [[place for place, leaf in enumerate(leaves) if _live(leaf)] for leaves in aux]
    given = [[leaves[place] for place in places] for leaves, places in zip(aux, live, strict=True)]
    between = [d if _live(d) else None for d in after]

    def layer(carry: Any, one: Any) -> tuple[Any, list[Array]]:
        (y1, y2), (d1, d2), of_shared = carry
        own, fixed, of_aux, of_after = one
        d1, d2 = (d if more is None else d + more for d, more in zip((d1, d2), of_after, strict=True))
        of_own = jax.tree.map(jnp.zeros_like, own)
        for number in reversed(range(len(branches))):

            def branch(own: Any, shared: Any, x: Array, number: int = number) -> tuple[Array, list[Array]]:
                y, aux = branches[number](of_layers.joined(own, fixed), of_all.joined(shared, constant), x)
                leaves = jax.tree.leaves(aux)
                return y, [leaves[place] for place in live[number]]

            (y, _), pull = jax.vjp(branch, own, shared, y1)
            more_own, more_shared, through = pull((d2, of_aux[number]))
            y1, y2, d1, d2 = y2 - y, y1, d2, d1 + through
            of_own = jax.tree.map(jnp.add, of_own, more_own)
            of_shared = jax.tree.map(jnp.add, of_shared, more_shared)
        return ((y1, y2), (d1, d2), of_shared), of_own

    begin = (pair, start, jax.tree.map(jnp.zeros_like, shared))
    (_, (d1, d2), of_shared), of_floats = lax.scan(layer, begin, (floats, others, given, between), reverse=True)
    return of_floats, None, of_shared, None, d1, d2
