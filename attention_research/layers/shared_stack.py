"""Cross-layer parameter sharing, Lan et al. 2020 (arXiv 1909.11942): one layer is applied several times.

A segment of `repeat` layers is one block whose arrays have a leading axis of size 1, so that parameter names and
sharding rules are the same as for other stacks. Norms are shared too. Each application has its own dropout and cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from attention_research.layers.block import Block
from attention_research.layers.stack import Stack


class SharedStack(Stack):
    """A `layers.stack.Stack` in which each segment has the weights of one layer."""

    def _owned(self, repeat: int) -> int:
        del repeat
        return 1

    def _each(self, blocks: Block) -> tuple[Any, Callable[[Any], Any]]:
        one = jax.tree.map(lambda x: x[0], blocks)
        return None, lambda _: one
