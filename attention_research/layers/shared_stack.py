"""One layer's weights applied again and again: cross-layer parameter sharing, Lan et al. 2020 (arXiv 1909.11942).

A segment of `repeat` layers is one block whose arrays have a leading axis of 1: names and sharding rules are those of
any stack. Its norms are shared too; dropout and caches are each application's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from attention_research.layers.block import Block
from attention_research.layers.stack import Stack


class SharedStack(Stack):
    """`layers.stack.Stack`, each segment with the weights of one layer."""

    def _owned(self, repeat: int) -> int:
        del repeat
        return 1

    def _each(self, blocks: Block) -> tuple[Any, Callable[[Any], Any]]:
        one = jax.tree.map(lambda x: x[0], blocks)
        return None, lambda _: one
