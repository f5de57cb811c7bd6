"""Measurements of a layer for `vaswani2017/table1` and `lectures/complexity`: counts, powers, chains and paths."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from attention_research.studies.columns import exponent

KINDS = {
    "attention_core": "self-attention, scores and sums",
    "attention": "self-attention with projections",
    "restricted_core": "restricted self-attention",
    "rnn": "vanilla RNN",
    "lstm": "LSTM",
    "convolution": "convolution",
    "dilated": "convolution, dilated",
    "separable": "separable convolution",
}


def count_powers(kind: str, lengths: Sequence[int], widths: Sequence[int], reaches: Sequence[int]) -> dict[str, Any]:
    """Fits "length_power", "width_power" and "reach_power" to counted multiply-adds.

    Names with the prefix "formula_" are fitted to the formula at the same points. Each power is fitted around the first
    length, width and reach. The reach is the width of a kernel or the r of restricted attention (None for other
    layers).
    """
    from .sequence_layers import Sizes, formula, multiply_adds

    def sizes(width: int, reach: int) -> Sizes:
        return Sizes(width, kernel_width=reach, neighbourhood=reach)

    n, d, r = lengths[0], widths[0], reaches[0]
    sweeps = {
        "length": (lengths, [(sizes(d, r), length) for length in lengths]),
        "width": (widths, [(sizes(width, r), n) for width in widths]),
        "reach": (reaches, [(sizes(d, reach), n) for reach in reaches]),
    }
    found: dict[str, Any] = {}
    for name, (points, cases) in sweeps.items():
        for prefix, count in (("", multiply_adds), ("formula_", formula)):
            counts = [count(kind, *case) for case in cases]
            none = name == "reach" and len(set(counts)) == 1
            found[f"{prefix}{name}_power"] = None if none else exponent(points, counts)
    return found


def chains(kind: str, width: int, lengths: Sequence[int], *, backward: bool = False) -> list[int]:
    """The longest chain of dependent products by length, in the forward pass or in the gradient."""
    import jax

    from attention_research.accounting.depth import measure_depth

    from .sequence_layers import Sizes, abstract_call

    found = []
    for length in lengths:
        function, shapes = abstract_call(kind, Sizes(width), length)
        found.append(measure_depth(jax.grad(summed(function), argnums=(0, 1)) if backward else function, *shapes).chain)
    return found


def summed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Half of the sum of squares, a loss whose gradient depends on every output."""
    return lambda *arguments: 0.5 * (function(*arguments) ** 2).sum()


def path(kind: str, length: int, *, width: int = 8, reach: int = 3, seed: int = 0) -> int:
    """The longest of the shortest paths between two positions that the layer, or a stack of it, connects.

    Dilated convolutions are stacked with dilations 1, k, k^2, ... below the length, and then again from 1.
    """
    import jax
    from flax import nnx

    from attention_research.accounting.paths import distance_through_states, layers_to_connect, reads

    from .sequence_layers import Sizes, sequence_layer

    key, inputs = jax.random.split(jax.random.key(seed))
    x = jax.random.normal(inputs, (length, width))

    dilations = [1]
    while kind == "dilated" and dilations[-1] * reach < length:
        dilations.append(dilations[-1] * reach)

    def sizes(dilation: int) -> Sizes:
        return Sizes(width, num_heads=2, kernel_width=reach, neighbourhood=reach, dilation=dilation)

    first = sequence_layer(kind, sizes(1))
    module = first.make(nnx.Rngs(key))
    if first.cell is not None:
        start = module.initial(1, x.dtype)

        def cell(pair: Any) -> Any:
            return first.cell(module, pair[:1], {**start, "hidden": pair[1:]})["hidden"]

        return distance_through_states(cell, x[:2], length)

    def layer(dilation: int) -> Any:
        one = sequence_layer(kind, sizes(dilation))
        return reads(lambda x: one.apply(module, x[None])[0], x)

    return layers_to_connect(itertools.cycle([layer(dilation) for dilation in dilations]))


def run_forward(kind: str, width: int, length: int, seconds: float, seed: int) -> dict[str, Any]:
    """Measures one forward pass by `accounting.clock.measure_call`."""
    from attention_research.accounting.clock import measure_call

    function, *arguments = real_call(kind, width, length, seed)
    return measure_call(function, *arguments, seconds=seconds, repeats=3)


def real_call(kind: str, width: int, length: int, seed: int) -> tuple[Any, Any, Any]:
    """Returns (function, module, x) with weights and inputs drawn from `seed`."""
    import jax
    from flax import nnx

    from .sequence_layers import Sizes, sequence_layer

    layer = sequence_layer(kind, Sizes(width))
    key, inputs = jax.random.split(jax.random.key(seed))
    module = jax.jit(lambda key: layer.make(nnx.Rngs(key)))(key)
    return layer.apply, module, jax.random.normal(inputs, (1, length, width))
