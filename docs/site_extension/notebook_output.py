"""Joins the pieces of a cell's printed output in a notebook.

A kernel sends printed text in pieces, which may end anywhere. The setting `nb_merge_streams` of myst-nb ends a line
after each piece, also inside a word.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(JoinedOutput)
    return {"parallel_read_safe": True}


class JoinedOutput(SphinxTransform):
    """Makes one block of consecutive blocks of printed output."""

    default_priority = 210

    def apply(self, **kwargs: Any) -> None:
        join(self.document)


def join(tree: nodes.Element) -> None:
    """Joins the blocks in a tree, in place."""
    for block in [*tree.findall(_is_output)]:
        before = block.parent[block.parent.index(block) - 1] if block.parent.index(block) else None
        if before is not None and _is_output(before):
            text = before.astext() + block.astext()
            joined = nodes.literal_block(text, text, **before.attributes)
            before.parent.replace(before, joined)
            block.parent.remove(block)


def _is_output(node: nodes.Node) -> bool:
    return isinstance(node, nodes.literal_block) and {"output", "stream"} <= set(node["classes"])
