"""Lists the inherited sections whose kind does not exist in their place, so that another kind is used there.

`model.self_attention=linformer` holds for the encoder and the decoder, for example. A decoder has no such kind, so it
keeps the first kind of its family (`config.scope`).
"""

from __future__ import annotations

from collections.abc import Iterator

from attention_research import registry
from attention_research.config.record import Config
from attention_research.config.scope import Scope


def fallbacks(config: Config) -> list[str]:
    """One line for each section of a config that does not have the kind that it would inherit.

    >>> from attention_research.config import load
    >>> overrides = [("model.self_attention", "linformer"), ("model.self_attention.rank", 4)]
    >>> (line,) = fallbacks(load("translation/transformer:cpu", overrides))
    >>> line.partition(";")[0]
    'config.model.self_attention.kind=linformer: config.model.decoder.self_attention is standard'
    """
    return list(_lines(Scope.root(config.given)))


def _lines(scope: Scope) -> Iterator[str]:
    for name, setting in scope.settings.items():
        if setting.section is None or setting.many or (child := scope.child(name)) is None:
            continue
        above = None if _names_kind(scope, name) else scope.above(setting)
        if above is not None and above.kind not in registry.FAMILIES[setting.family]:
            why = registry.REFUSED.get((setting.family, above.kind), f"there is no such kind of {setting.family}")
            place = above.written.get("kind", name)
            yield f"{place}={above.kind}: {child.path} is {child.kind}; {why}"
        yield from _lines(child)


def _names_kind(scope: Scope, name: str) -> bool:
    """Whether a child section is given with its kind, or as None."""
    if name not in scope.raw.values:
        return False
    given = scope.raw.values[name]
    return "kind" in given if isinstance(given, dict) else True
