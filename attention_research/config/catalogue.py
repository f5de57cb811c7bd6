"""The facts of every kind and of every mechanism of the catalogue, for `attention-research list kinds --json`.

A kind's facts are read from the sources, without importing them:

    paper, year      the first citation "Authors Year" in the docstring of its class or module, or of its mechanism
    families         the families that define the class; "refused" has the reasons why others do not
    models           the kinds of models whose sections can hold it
    state, exponent  the attribute `cost` of its class, which subclasses inherit (`layers.attention.multi_head`)

`state` is the number of values that a layer caches for one row of S positions, as a formula: N heads and K key heads of
width H (values Hv), width D; other names are settings. `exponent` is that of the time of a forward pass in the length.
A new kind gets both from its base class; if they differ, its class has the line ``cost = ("N*H*Hv", 1)``.

Two files of this folder hold what cannot be read without importing. `python -m tests.catalogue` writes
mechanisms.jsonl, a line for each row of docs/catalogue.md, and `python -m tests.catalogue studies` writes
studies.jsonl, the studies that use each kind.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from attention_research import registry
from attention_research.config import meanings, schema

HERE = Path(__file__).parent
#: The families whose kinds decode one position after the other, and have a state.
DECODING = (registry.CAUSAL, registry.PROMPTED, registry.PREFIX)
_AUTHOR = r"(?:(?:de|den|der|van|von|le) )*[A-Z][\w'’-]+(?: Team)?"
_PAPER = re.compile(
    rf"(?P<paper>{_AUTHOR}(?: et al\.|(?:, {_AUTHOR}){{0,3}},? (?:&|and) {_AUTHOR})? (?P<year>(?:19|20)\d\d)[a-z]?"
    r"(?: \(arXiv [\d.]+\))?)"
)


def document() -> list[dict[str, Any]]:
    """The facts of all kinds, then those of all mechanisms."""
    return [*kinds(), *mechanisms()]


def kinds() -> list[dict[str, Any]]:
    """The facts of each kind of the registry, in its order."""
    return [facts(family, kind) for family, found in registry.FAMILIES.items() for kind in found]


def facts(family: str, kind: str) -> dict[str, Any]:
    """The facts of a kind. A fact that does not apply, or that its source does not state, is None."""
    place = registry.locate(family, kind)
    families = [
        one for one, found in registry.FAMILIES.items() if kind in found and registry.locate(one, kind) == place
    ]
    computed = [one["name"] for one in _rows("mechanisms") if any(_place(name) == place for name in one["kinds"])]
    paper, year = _citation(family, kind, computed)
    state, exponent = cost(*place) or (None, None)
    return {
        "name": f"{family}.{kind}",
        "sort": "kind",
        "family": family,
        "kind": kind,
        "title": meanings.title(family, kind),
        "paper": paper,
        "year": year,
        "mechanisms": computed,
        "families": families,
        "refused": {one: why for (one, refused), why in registry.REFUSED.items() if refused == kind},
        "models": [one for one in registry.FAMILIES["model"] if any(one in models(name) for name in families)],
        "studies": sorted({study for one in families for study in _studies().get(f"{one}.{kind}", [])}),
        "state": state if set(families) & set(DECODING) else None,
        "exponent": exponent,
    }


def mechanisms() -> list[dict[str, Any]]:
    """The facts of each mechanism of docs/catalogue.md, in its order, with those of the kinds that compute it.

    `state` and `exponent` are those of the first kind. A mechanism without a kind has the `reason`.
    """
    found = []
    for row in _rows("mechanisms"):
        of = [facts(*name.split(".", 1)) for name in row["kinds"] if _place(name)]
        joined = lambda key, of=of: list(dict.fromkeys(one for facts in of for one in facts[key]))
        first = next((one for one in of if one["exponent"] is not None), {"state": None, "exponent": None})
        found.append(
            {
                **row,
                "sort": "mechanism",
                "families": joined("families"),
                "models": joined("models"),
                "studies": joined("studies"),
                "state": first["state"],
                "exponent": first["exponent"],
            }
        )
    return found


def models(family: str) -> list[str]:
    """The kinds of models whose sections can hold a kind of this family."""
    return [kind for kind in registry.FAMILIES["model"] if family == "model" or family in _reached("model", kind)]


@cache
def cost(module: str, name: str) -> tuple[str | None, float] | None:
    """The attribute `cost` of a class or of the nearest of its bases: (the formula of the state, the exponent)."""
    path = schema.source(module)
    tree = ast.parse(path.read_text(encoding="utf-8") if path else "")
    node = next((one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name), None)
    if node is None:
        return None
    for statement in node.body:
        named = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if [ast.unparse(one) for one in named if one is not None] == ["cost"]:
            return ast.literal_eval(statement.value)  # type: ignore[attr-defined]
    homes = filter(None, (schema.home_of_base(tree, module, base) for base in node.bases))
    return next(filter(None, (cost(*home) for home in homes)), None)


@cache
def _reached(family: str, kind: str) -> frozenset[str]:
    """The families of all sections inside a section of this kind, whatever kinds they have."""
    found: set[str] = set()
    left = [(family, kind)]
    while left:
        for setting in schema.signature(*left.pop()).values():
            if setting.section is not None and setting.family not in found:
                found.add(setting.family)
                left += [(setting.family, one) for one in registry.FAMILIES[setting.family]]
    return frozenset(found)


def _citation(family: str, kind: str, computed: list[str]) -> tuple[str | None, int | None]:
    """(paper, year) of the first citation about a kind, or of the first mechanism that it computes."""
    texts = meanings.docstring(family, kind)
    paragraphs = texts.split("\n\n")
    found = next(filter(None, map(cited, paragraphs)), None)
    if found is not None:
        return found
    row = next((one for one in _rows("mechanisms") if one["name"] in computed), None)
    return (None, None) if row is None else (row["paper"], row["year"])


def cited(text: str) -> tuple[str, int] | None:
    """The first "Authors Year" of a text. A title before the first comma is not an author.

    >>> cited("Linformer, Wang et al. 2020 (arXiv 2006.04768), equation 7: softmax(Q (E K)^T) (F V).")
    ('Wang et al. 2020 (arXiv 2006.04768)', 2020)
    """
    text = " ".join(text.split())
    title = text.partition(",")[0]
    found = _PAPER.search(text, 0 if title == text or _PAPER.search(title) else len(title))
    return (found["paper"], int(found["year"])) if found else None


@cache
def _rows(name: str) -> list[dict[str, Any]]:
    """The lines of a file of this folder."""
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@cache
def _studies() -> dict[str, list[str]]:
    return {one["kind"]: one["studies"] for one in _rows("studies")}


def _place(name: str) -> tuple[str, str] | None:
    """The class of "family.kind", or None if the registry does not have it."""
    family, _, kind = name.partition(".")
    return registry.locate(family, kind) if kind in registry.FAMILIES.get(family, {}) else None
