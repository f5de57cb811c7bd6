"""A layout in which all layers are equal."""

from __future__ import annotations

from collections.abc import Mapping

from attention_research.signatures import Constructor

Children = Mapping[str, Constructor]


class UniformLayout:
    """All layers form one segment with the same children."""

    def __call__(self, children: Children, num_layers: int) -> list[tuple[Children, int]]:
        """The list of (children of the blocks, number of layers)."""
        return [(children, num_layers)]
