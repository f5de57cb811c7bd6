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
    """Splits the segments of a layout where a self-attention of their layers changes."""
    for name, child in layers[0][0].items():
        if getattr(getattr(child, "target", None), "by_layer", None) is not None:
            layers = _split(layers, name)
    return layers


def _split(layers: list[tuple[Children, int]], name: str) -> list[tuple[Children, int]]:
    """Splits the segments where the child `name` changes."""
    children = [some for some, count in layers for _ in range(count)]
    own = layers_of(children[0][name], len(children))
    kinds: list[Constructor] = [one for one, count in own for _ in range(count)]
    pairs = [({**some, name: one}, (id(some), id(one))) for some, one in zip(children, kinds, strict=True)]
    found: list[tuple[Children, int]] = []
    for _, group in groupby(pairs, key=lambda pair: pair[1]):
        alike = list(group)
        found.append((alike[0][0], len(alike)))
    return found
