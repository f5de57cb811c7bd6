"""Converts Python source to a text without docstrings, comments and layout, which is equal in all Python versions.

>>> code("x = 1  # one") == code("x   =   1")
True
"""

from __future__ import annotations

import ast
from typing import Any

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code(source: str) -> str:
    """The text of a module's source. Raises SyntaxError."""
    return text_of(ast.parse(source))


def text_of(node: Any) -> str:
    """The text of a syntax tree or of a part of it. Empty fields are omitted, because Python versions differ in
    them."""
    if isinstance(node, list):
        return f"[{','.join(map(text_of, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = []
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            value = value[1:]
        if value is not None and value != [] and name not in ("kind", "type_comment"):
            fields.append(f"{name}={text_of(value)}")
    return f"{type(node).__name__}({','.join(fields)})"
