"""All layers alike."""

from __future__ import annotations

from collections.abc import Mapping

from attention_research.signatures import Constructor

Children = Mapping[str, Constructor]


class UniformLayout:
    """One segment."""

    def __call__(self, children: Children, num_layers: int) -> list[tuple[Children, int]]:
        """(children of the blocks, how many)."""
        return [(children, num_layers)]
