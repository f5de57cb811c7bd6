"""Renders the equations of the site as MathML, which browsers display without a script, a font or the network."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True}


def inline(translator, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(translator, node: nodes.math_block) -> None:
    label = f' id="{node["ids"][0]}"' if node["ids"] else ""
    translator.body.append(f'<div class="math"{label}>{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def mathml(latex: str, display: str) -> str:
    """The `<math>` element of an equation. Raises ValueError if a command cannot be converted."""
    element = convert(latex.strip(), display=display)
    if "\\" in element:
        raise ValueError(f"an equation has a command that is not converted to MathML: {latex}")
    return element
