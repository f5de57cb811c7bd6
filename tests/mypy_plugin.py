"""A mypy plugin that reads ``Child["attention"]`` in a constructor's signature as Any (`Constructor` in the body).

mypy looks the string up as the name of a type before it asks a plugin about the annotation, but the name of a config
section is not a type. The hook used here sees every class before the signatures of its methods are analysed.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import FuncDef
from mypy.plugin import ClassDefContext, Plugin
from mypy.types import AnyType, CallableType, Type, TypeOfAny, UnboundType


class Sections(Plugin):
    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        return _read_children if fullname.startswith("attention_research.") else None


def _read_children(context: ClassDefContext) -> None:
    for method in context.cls.defs.body:
        if isinstance(method, FuncDef) and isinstance(method.type, CallableType):
            method.type.arg_types = [_read(annotation) for annotation in method.type.arg_types]


def _read(annotation: Type) -> Type:
    is_child = isinstance(annotation, UnboundType) and annotation.name in ("Child", "Children")
    return AnyType(TypeOfAny.explicit) if is_child else annotation


def plugin(version: str) -> type[Plugin]:
    """The function that mypy calls to get the plugin class."""
    return Sections
