"""Constituency trees as text: in brackets (Penn Treebank), and linearised for sequence-to-sequence models.

    (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))        in brackets
    (S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S                          linearised

Vinyals et al. 2015, section 2.2: depth first, with an opening and a closing token for each constituent, both with its
label. The words are left out, because the source contains them. Part-of-speech tags become XX (section 3.1), except
those of punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Tags that are kept; words with these tags do not count in the span of a bracket (evalb, COLLINS.prm).
PUNCTUATION = frozenset({",", ".", ":", "``", "''"})
WORD = "XX"
_ROOTS = frozenset({"", "TOP", "ROOT", "S1"})
_TOKEN = re.compile(r"\(|\)|[^\s()]+")


@dataclass(frozen=True)
class Tree:
    """A constituent, or a tag with one word in `children`."""

    label: str
    children: tuple[Tree | str, ...]

    @property
    def is_tag(self) -> bool:
        return isinstance(self.children[0], str)

    def leaves(self) -> Iterator[tuple[str, str]]:
        """(tag, word) from left to right."""
        for child in self.children:
            if isinstance(child, str):
                yield self.label, child
            else:
                yield from child.leaves()


def read(text: str) -> Tree:
    """A tree from its brackets, without an outermost bracket that has no linguistic label (ROOT, TOP).

    Raises `ValueError` if the text is not exactly one tree.
    """
    tokens = _TOKEN.findall(text)
    tree, end = _read(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"text after the tree: {' '.join(tokens[end:])[:60]}")
    while tree.label in _ROOTS and len(tree.children) == 1 and isinstance(child := tree.children[0], Tree):
        tree = child
    return tree


def _read(tokens: list[str], start: int) -> tuple[Tree, int]:
    if tokens[start : start + 1] != ["("]:
        raise ValueError(f"expected ( but found {' '.join(tokens[start : start + 1]) or 'the end'}")
    at = start + 1
    label = ""
    if at < len(tokens) and tokens[at] not in "()":
        label, at = tokens[at], at + 1
    children: list[Tree | str] = []
    while at < len(tokens) and tokens[at] != ")":
        if tokens[at] == "(":
            child, at = _read(tokens, at)
        else:
            child, at = tokens[at], at + 1
        children.append(child)
    words = sum(isinstance(child, str) for child in children)
    if at == len(tokens) or not children or (words and len(children) > 1):
        what = "is not closed" if at == len(tokens) else "holds no tree and no single word"
        raise ValueError(f"({label} {what}")
    return Tree(label, tuple(children)), at + 1


def sentence(tree: Tree) -> str:
    """The words of a tree."""
    return " ".join(word for _, word in tree.leaves())


def linearised(tree: Tree) -> str:
    """The linearised text of a tree.

    >>> linearised(read("(ROOT (S (NP (NNP John)) (VP (VBZ sleeps)) (. .)))"))
    '(S (NP XX )NP (VP XX )VP . )S'
    """
    return " ".join(_tokens(tree))


def _tokens(tree: Tree) -> Iterator[str]:
    if tree.is_tag:
        yield tree.label if tree.label in PUNCTUATION else WORD
    else:
        yield f"({tree.label}"
        for child in tree.children:
            assert isinstance(child, Tree)
            yield from _tokens(child)
        yield f"){tree.label}"
