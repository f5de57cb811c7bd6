"""A different feed-forward in one layer, like the memory of Lample et al. 2019 (arXiv 1907.05242), section 3.3."""

from __future__ import annotations

from attention_research.layers.layouts.bounds import expect_layer
from attention_research.layers.layouts.uniform import Children
from attention_research.signatures import Child, Positive


class OneLayout:
    """Layer `layer`, counted from 1, has the given `feed_forward`. Raises ConfigError if the stack has fewer layers."""

    def __init__(self, *, layer: Positive, feed_forward: Child["feed_forward"]):
        self.layer, self.feed_forward = layer, feed_forward

    def __call__(self, children: Children, num_layers: int) -> list[tuple[Children, int]]:
        """The list of (children of the blocks, number of layers)."""
        expect_layer("layout.layer", self.layer, num_layers)
        other = {**children, "feed_forward": self.feed_forward}
        segments = [(children, self.layer - 1), (other, 1), (children, num_layers - self.layer)]
        return [(some, count) for some, count in segments if count]
