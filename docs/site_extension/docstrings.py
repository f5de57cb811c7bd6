"""Converts docstrings from Markdown, as they are written here, to the reStructuredText that autodoc expects."""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

from attention_research import signatures
from attention_research.config.meanings import sentences

ARXIV = re.compile(r"arXiv\s+(?P<number>\d{4}\.\d{4,5})")
#: Code between backticks, also across lines.
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
MARK = re.compile(r"[*](?! )|(?<=\S)[*]|[\\|_`]")
#: An emphasized word, with escaped asterisks. Products such as a*b*c have no spaces around.
EMPHASIS = re.compile(r"(?<![\w*\\])\\\*([a-z]+)\\\*(?![\w*\\])")
#: A type of numbers in `attention_research.signatures`, as Python prints it -> its name.
NUMBERS = {
    f"Annotated[{value.__origin__.__name__}, {value.__metadata__[0]!r}]": name
    for name, value in vars(signatures).items()
    if getattr(value, "__origin__", None) in (int, float)
}
CHILD = re.compile(r"Annotated\[[^']*\], '(Child|Children)', ([^\]]*)\]")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", lambda app, what, name, thing, options, lines: as_rst(lines))
    app.connect("autodoc-process-signature", sign)
    return {"parallel_read_safe": True}


def first_sentence(docstring: str | None) -> str:
    """The first sentence of a docstring, on one line.

    >>> first_sentence("Linformer, Wang et al. 2020: `Q E K`. Linear in the length.")
    'Linformer, Wang et al. 2020: `Q E K`.'
    """
    first = next(iter(sentences((docstring or "").strip().partition("\n\n")[0])), "")
    return first if first.endswith((".", "!", "?")) or not first else f"{first}."


def sign(app: Sphinx, what: str, name: str, thing: Any, options: Any, *parts: str | None) -> Any:
    """The signature and return type of an object.

    Autodoc reads that of a class from its metaclass, which for a Flax module accepts anything.
    """
    if what == "class" and parts[0] == "(*args: Any, **kwargs: Any)":
        own = inspect.signature(thing.__init__)
        own = own.replace(parameters=[*own.parameters.values()][1:], return_annotation=own.empty)  # without self
        return stringify_signature(own, unqualified_typehints=True), None
    return readable(*parts)


def readable(signature: str | None, returned: str | None) -> tuple[str | None, str | None]:
    """The parts of a signature, with the names of types as in the sources.

    >>> readable("(width: Annotated[int, 'at least 1'], norm: Annotated[Callable[[...], Any], 'Child', 'norm'])", None)
    ("(width: Positive, norm: Child['norm'])", None)
    """
    return tuple(part and _named(part) for part in (signature, returned))


def _named(part: str) -> str:
    part = part.replace("jaxlib._jax.Array", "Array").replace("<factory>", "...")  # Sphinx parses it as Python
    for text, name in NUMBERS.items():
        part = part.replace(text, name)
    return CHILD.sub(r"\1[\2]", part)


def as_rst(lines: list[str]) -> None:
    """Converts a docstring from Markdown (code in backticks, indented blocks, lists) to reStructuredText, in place."""
    if re.match(r"Alias for field number \d+", "".join(lines)):  # the default docstring of a NamedTuple field
        lines.clear()
    blocks = [block for block in re.split(r"\n(?:[ \t]*\n)+", "\n".join(lines).strip("\n")) if block]
    lines[:] = "\n\n".join(_block(block) for block in blocks).split("\n") + [""]


def _block(block: str) -> str:
    """Converts a paragraph, a list, a doctest or a block of code."""
    if block.lstrip().startswith(">>>"):
        return block
    if block.startswith("    "):
        return f"::\n\n{block}"
    parts = CODE.split(block)  # text, backticks, code, text, ...
    marked = [
        ARXIV.sub(
            r"`arXiv \g<number> <https://arxiv.org/abs/\g<number>>`__",
            EMPHASIS.sub(r"*\1*", MARK.sub(r"\\\g<0>", part)),
        )
        if place % 3 == 0
        else part
        for place, part in enumerate(parts)
    ]
    marked[1::3] = [""] * len(parts[1::3])
    marked[2::3] = [rf"\ ``{code}``\ " for code in parts[2::3]]  # the backslashes allow letters directly beside code
    return "".join(marked)
