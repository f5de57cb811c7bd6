"""Self-attentions that differ from layer to layer: the kind itself says which layer has which.

A class of attention with a method `by_layer(attention, num_layers)` returns [(constructor, number of layers)] from the
first layer on. The kinds `interleaved`, `value_residual`, `cross_layer` and `yoco` use it.
"""

from __future__ import annotations

from itertools import groupby

from attention_research.layers.layouts.uniform import Children
from attention_research.signatures import Constructor


def layers_of(attention: Constructor, num_layers: int) -> list[tuple[Constructor, int]]:
    """The self-attentions of `num_layers` layers of one kind."""
    make = getattr(attention.target, "by_layer", None)
    return [(attention, num_layers)] if make is None else make(attention, num_layers)


def by_layer(layers: list[tuple[Children, int]]) -> list[tuple[Children, int]]:
    """Splits the segments of a layout where the self-attention of its layers changes."""
    make = getattr(getattr(layers[0][0].get("self_attention"), "target", None), "by_layer", None)
    if make is None:
        return layers
    children = [some for some, count in layers for _ in range(count)]
    kinds: list[Constructor] = [
        one for one, count in make(children[0]["self_attention"], len(children)) for _ in range(count)
    ]
    pairs = [({**some, "self_attention": one}, (id(some), id(one))) for some, one in zip(children, kinds, strict=True)]
    found: list[tuple[Children, int]] = []
    for _, group in groupby(pairs, key=lambda pair: pair[1]):
        alike = list(group)
        found.append((alike[0][0], len(alike)))
    return found
