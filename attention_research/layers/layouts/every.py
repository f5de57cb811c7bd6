"""A different feed-forward in every k-th layer, as Lepikhin et al. 2020 (arXiv 2006.16668) place their experts."""

from __future__ import annotations

from attention_research.layers.layouts.bounds import expect_layer
from attention_research.layers.layouts.uniform import Children
from attention_research.signatures import Child, Positive


class EveryLayout:
    """Layers `interval`, 2 * `interval`, ..., counted from 1, have the given `feed_forward`.

    Raises ConfigError if the stack has fewer layers than `interval`.
    """

    def __init__(self, *, interval: Positive, feed_forward: Child["feed_forward"]):
        self.interval, self.feed_forward = interval, feed_forward

    def __call__(self, children: Children, num_layers: int) -> list[tuple[Children, int]]:
        """The list of (children of the blocks, number of layers)."""
        expect_layer("layout.interval", self.interval, num_layers)
        groups, rest = divmod(num_layers, self.interval)
        sparse = {**children, "feed_forward": self.feed_forward}
        segments = [(children, self.interval - 1), (sparse, 1)] * groups + [(children, rest)]
        return [(some, count) for some, count in segments if count]
