"""The task of Allamanis et al. 2016: bodies and names of functions as sub-tokens, from the Python standard library.

The source is the library of the running interpreter (`library`), so that every machine has it and nothing is
downloaded. Versions of Python differ; the fingerprint of the data includes the version. Test packages (`test`, `tests`,
`idle_test`) are left out, because some distributions do not ship them and their names say what is tested. Installed
packages and files that do not parse are left out, too.

An example is a function or method, at any depth. Its body, without docstring, comments and line structure, becomes
tokens: names are split at underscores and at changes of case, in lower case; operators stay; a number is `<number>`,
and a string `<string>`. The function's own name becomes `<name>` wherever it occurs as a whole name in the body,
because recursion and `super()` would reveal it. The target is the sub-tokens of the name. These functions are left out:
names with two underscores on both sides, names without a letter, names of more than `MAX_NAME` sub-tokens, and bodies
equal to that of an earlier function.

The split is by top-level module, so that no training function comes from the module of a test function. MD5 of the
module's name modulo 20 is a multiple of five for test (0 alone would be four modules with 169 functions) and 1 for
validation. Python 3.11.7 has 8,351 functions for training, 897 for validation and 2,284 for test.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import sysconfig
import tokenize
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from attention_research.data.by_hash import share_of

#: The largest number of sub-tokens of a name; with the end of sentence, eight tokens.
MAX_NAME = 7
NUMBER, STRING, NAME = "<number>", "<string>", "<name>"
NO_SOURCE = ("test", "tests", "idle_test", "site-packages", "dist-packages", "lib-dynload", "__pycache__")
#: A run of capitals before a capitalised word, a word, a run of capitals, digits.
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


class Function(NamedTuple):
    """`body` and `name` as sub-tokens separated by spaces; `place` is "path:line" inside the library."""

    place: str
    body: str
    name: str


def library() -> Path:
    """The folder of this interpreter's standard library."""
    return Path(sysconfig.get_path("stdlib"))


def files(folder: Path) -> list[Path]:
    """The Python files to read, sorted."""
    wanted = lambda path: not any(part in NO_SOURCE or part.startswith("config-") for part in path.parts)
    return sorted(path for path in folder.rglob("*.py") if wanted(path.relative_to(folder)))


def sub_tokens(identifier: str) -> list[str]:
    """The parts of a name, in lower case; a name with non-ASCII letters is split only at underscores.

    >>> sub_tokens("setUseBrowserCache"), sub_tokens("_HTTPServer_2nd")
    (['set', 'use', 'browser', 'cache'], ['http', 'server', '2', 'nd'])
    """
    parts = _PART.findall(identifier) if identifier.isascii() else identifier.split("_")
    return [part.lower() for part in parts if part]


def split_of(module: str) -> str:
    """The split of a top-level module."""
    share = share_of(module)
    return "test" if share % 5 == 0 else "validation" if share == 1 else "train"


def read(folder: Path) -> tuple[dict[str, list[Function]], Counter[str]]:
    """(split -> its functions in the order of the files, reason -> the number left out)."""
    found: dict[str, list[Function]] = {"train": [], "validation": [], "test": []}
    left: Counter[str] = Counter()
    bodies: set[str] = set()
    for path in files(folder):
        inside = path.relative_to(folder)
        try:
            source = path.read_text(encoding="utf-8")
            functions = list(functions_of(source))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            left["files that do not parse"] += 1
            continue
        for line, name, body in functions:
            reason = _unfit(name, body, bodies)
            if reason:
                left[reason] += 1
                continue
            bodies.add(" ".join(body))
            function = Function(f"{inside.as_posix()}:{line}", " ".join(body), " ".join(sub_tokens(name)))
            found[split_of(inside.parts[0].removesuffix(".py"))].append(function)
    return found, left


def _unfit(name: str, body: list[str], bodies: set[str]) -> str:
    """The reason why a function is not an example, or an empty string."""
    parts = sub_tokens(name)
    if name.startswith("__") and name.endswith("__"):
        return "names with two underscores on both sides"
    if not any(part.isalpha() for part in parts):
        return "names without a letter"
    if len(parts) > MAX_NAME:
        return f"names of more than {MAX_NAME} sub-tokens"
    if not body:
        return "empty bodies"
    return "bodies that were there before" if " ".join(body) in bodies else ""


def functions_of(source: str) -> Iterator[tuple[int, str, list[str]]]:
    """(line, name, body as sub-tokens) of every function in a module, in the order of their lines."""
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not nodes:
        return
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    starts, lines = [token.start for token in tokens], source.split("\n")
    for node in sorted(nodes, key=lambda node: node.lineno):
        body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
        if not body:
            yield node.lineno, node.name, []
            continue
        start, end = _place(body[0], lines, "start"), _place(body[-1], lines, "end")
        inside = (token for token in tokens[bisect_left(starts, start) : bisect_left(starts, end)] if token.end <= end)
        yield node.lineno, node.name, [part for token in inside for part in _parts(token, node.name)]


def _place(node: ast.stmt, lines: list[str], side: str) -> tuple[int, int]:
    """(line, column in characters) of the start or end of a statement with its decorators; `ast` counts bytes."""
    if side == "end":
        line, column = node.end_lineno, node.end_col_offset
    else:
        first = min([node, *getattr(node, "decorator_list", [])], key=lambda part: part.lineno)
        line, column = first.lineno, 0 if first is not node else node.col_offset
    assert line is not None  # known for a parsed statement
    return line, len(lines[line - 1].encode()[:column].decode())


def _parts(token: tokenize.TokenInfo, name: str) -> list[str]:
    """A Python token as sub-tokens; none for comments, line ends and indentation."""
    match token.type:
        case tokenize.NAME if token.string == name:
            return [NAME]
        case tokenize.NAME:
            return [token.string.lower()] if keyword.iskeyword(token.string) else sub_tokens(token.string) or ["_"]
        case tokenize.OP:
            return [token.string]
        case tokenize.NUMBER:
            return [NUMBER]
        case tokenize.STRING:
            return [STRING]
    return [STRING] if tokenize.tok_name[token.type] == "FSTRING_START" else []
