"""Self-attentions that differ from layer to layer: the kind itself says which layer has which.

A class of attention with a method `by_layer(attention, num_layers)` returns [(constructor, number of layers)] from the
first layer on. The kinds `interleaved`, `value_residual`, `cross_layer` and `yoco` use it. An attribute `fewest_layers`
is the number of layers that a class needs; without it, one layer is enough.
"""

from __future__ import annotations

from itertools import groupby

from attention_research.errors import ConfigError
from attention_research.layers.layouts.uniform import Children
from attention_research.signatures import Constructor


def layers_of(attention: Constructor, num_layers: int) -> list[tuple[Constructor, int]]:
    """The self-attentions of `num_layers` layers, all those of a stack. Raises ConfigError if they are too few."""
    if num_layers < (least := _fewest(attention)):
        raise ConfigError(f"num_layers: {num_layers}; this self-attention expects at least {least} layers")
    return _made(attention, num_layers)


def some_of(within: Constructor, name: str, count: int, num_layers: int) -> list[tuple[Constructor, int]]:
    """The self-attentions of `count` of the `num_layers` layers of a stack, those of the child section `name` of its
    self-attention `within`. Raises ConfigError, which names this section, if they are too few."""
    attention = within.settings[name]
    if 0 < count < (least := _fewest(attention)):
        have = f"{count} of {num_layers} layers {'has' if count == 1 else 'have'} it"
        raise ConfigError(f"{path_of(within, name)}: this kind expects at least {least} layers; {have}")
    return _made(attention, count) if count else []


def path_of(attention: Constructor, name: str) -> str:
    """The path of a setting of a self-attention, for messages: in full if the section knows its own path."""
    return f"{attention.path or 'self_attention'}.{name}"


def _fewest(attention: Constructor) -> int:
    return getattr(attention.target, "fewest_layers", 1)


def _made(attention: Constructor, num_layers: int) -> list[tuple[Constructor, int]]:
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
