"""Facts about Python sources, read from their syntax trees: what they bind, use and import, and their hash.

Docstrings, comments and layout do not count (`source_text`), and neither do the methods of `BESIDE` and `NEVER`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

from attention_research.source_text import text_of

PACKAGE = "attention_research"
#: Methods, by name or Class.name, whose numbers are optional for a trial: the baselines that it is compared with, and
#: the scores of sources near to and far from the training data, with the constructor that has their setting.
BESIDE = ("floors", "by_distance", "distance_summary", "BleuEvaluation.__init__")
#: Methods and attributes that never count: they compute no score. The statistics have a version number of their own;
#: the metrics say how scores are printed.
NEVER = ("sentence_statistics", "metrics")


def bound(node: ast.stmt) -> Iterator[str]:
    """The names that a top-level statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    else:
        for one in ast.walk(node):
            if isinstance(one, ast.Import | ast.ImportFrom):
                yield from (alias.asname or alias.name.split(".")[0] for alias in one.names)
            elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


def always_counts(node: ast.stmt) -> bool:
    """Whether a statement always counts, because it has an effect: an expression that is not a constant."""
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)


def is_builder(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import provides functions that build objects by kind."""
    names = {alias.name for alias in node.names}
    if isinstance(node, ast.Import):
        return any(name.startswith(f"{PACKAGE}.config") for name in names)
    module = node.module or ""
    if module == PACKAGE:
        return not names.isdisjoint(("config", "registry"))
    return module.startswith(f"{PACKAGE}.config") or (module == f"{PACKAGE}.registry" and "lookup" in names)


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts about a syntax tree.

    They are the hash of its text, its names, words (string constants) and imports, whether it builds objects by kind,
    and the (family, kind) of each child with a default.
    """

    text: str
    names: frozenset[str]
    words: frozenset[str]
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    builds: bool
    children: frozenset[tuple[str, str]]


def facts_of(tree: ast.AST) -> Facts:
    """The facts about a tree."""
    nodes = list(ast.walk(tree))
    imports = tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return Facts(
        hashlib.sha256(text_of(tree).encode()).hexdigest(),
        frozenset(node.id for node in nodes if isinstance(node, ast.Name)),
        frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)),
        imports,
        any(map(is_builder, imports)),
        frozenset(child for node in nodes if isinstance(node, ast.arguments) for child in _children(node)),
    )


def _children(arguments: ast.arguments) -> Iterator[tuple[str, str]]:
    """The (family, kind) of each argument `Child["family"] = "kind"`."""
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True),
             *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]  # fmt: skip
    for argument, default in pairs:
        annotation = argument.annotation
        if isinstance(annotation, ast.Subscript) and isinstance(default, ast.Constant):
            if ast.unparse(annotation.value) == "Child" and isinstance(annotation.slice, ast.Constant):
                yield str(annotation.slice.value), str(default.value)


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file as it is now."""
    stat = path.stat()
    return _parse(path, stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=8)
def _parse(path: Path, time: int, size: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def names_in(path: Path) -> frozenset[str]:
    """The names that a module binds at top level."""
    stat = path.stat()
    return _names_in_file(path, stat.st_mtime_ns, stat.st_size)


@functools.cache
def _names_in_file(path: Path, time: int, size: int) -> frozenset[str]:
    return frozenset(name for node in _parse(path, time, size).body for name in bound(node))


def module_facts(path: Path, whole: bool) -> Facts:
    """The facts about a file as it is now, without the methods of `NEVER` and, unless `whole`, those of `BESIDE`."""
    stat = path.stat()
    return _cached_facts(path, stat.st_mtime_ns, stat.st_size, whole)


@functools.cache
def _cached_facts(path: Path, time: int, size: int, whole: bool) -> Facts:
    # The cache holds only the facts, since syntax trees are large.
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = NEVER if whole else (*NEVER, *BESIDE)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            node.body = [one for one in node.body if not _is_one_of(left_out, node, one)]
    return facts_of(tree)


def _is_one_of(names: Collection[str], owner: ast.ClassDef, node: ast.stmt) -> bool:
    own = list(bound(node)) if isinstance(node, ast.FunctionDef | ast.Assign | ast.AnnAssign) else []
    return any(not {name, f"{owner.name}.{name}"}.isdisjoint(names) for name in own)
