"""Config files: ``get_config(variant)`` and ``VARIANTS`` of ``configs/translation/transformer.py[:variant]``."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attention_research.config.annotations import plain
from attention_research.config.errors import ConfigError, nearest, offer
from attention_research.config.overrides import Override
from attention_research.config.record import Config, resolve


def load(spec: str, overrides: Iterable[Override] = ()) -> Config:
    """The resolved config of ``file.py[:variant]`` (without a variant: the first) with overrides.

    Raises `ConfigError`, one line, before anything slow; imports no JAX unless the file does.
    """
    path, _, variant = str(spec).partition(":")
    module = _run(Path(path))
    names = _variants(module, path)
    variant = variant or next(iter(names))
    if variant not in names:
        raise ConfigError(f"{path}: no variant {variant!r}; {offer(variant, names)}")
    return resolve(_given(module, path, variant), overrides, spec=f"{path}:{variant}")


def variants(path: str | Path) -> dict[str, str]:
    """Variant -> one line about it ('' where the file says nothing)."""
    return _variants(_run(Path(path)), path)


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        files = {file.as_posix() for file in Path("configs").rglob("*.py") if not file.name.startswith("_")}
        if path.parent.is_dir():
            files |= {file.as_posix() for file in path.parent.glob("*.py") if not file.name.startswith("_")}
        close = nearest(path.as_posix(), sorted(files))
        raise ConfigError(f"{path}: no such config file" + (f"; did you mean {close}?" if close else ""))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        exec(_compiled(path.read_text(encoding="utf-8"), str(path)), module.__dict__)
    except Exception as error:
        raise _failure(path, error) from error
    return module


@lru_cache(maxsize=64)
def _compiled(text: str, path: str) -> CodeType:
    """A study asks for the same file once for each of its rows."""
    return compile(text, path, "exec")


def _variants(module: ModuleType, path: str | Path) -> dict[str, str]:
    names = getattr(module, "VARIANTS", None)
    if not callable(getattr(module, "get_config", None)) or not names or not isinstance(names, (Mapping, tuple, list)):
        raise ConfigError(f"{path}: a config file defines get_config(variant) and VARIANTS (name -> one line)")
    return dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, "")


def _given(module: ModuleType, path: str, variant: str) -> dict[str, Any]:
    from ml_collections import ConfigDict

    try:
        given = module.get_config(variant)
        if isinstance(given, ConfigDict):
            given = given.copy_and_resolve_references().to_dict()
    except Exception as error:
        raise _failure(path, error) from error
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: get_config({variant!r}) gave {type(given).__name__}; expected a ConfigDict")
    return plain(given)


def _failure(path: str | Path, error: Exception) -> ConfigError:
    """Where in the file something went wrong, in one line."""
    if isinstance(error, SyntaxError):
        return ConfigError(f"{path}:{error.lineno}: {error.msg}")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return ConfigError(f"{path}{f':{lines[-1]}' if lines else ''}: {type(error).__name__}: {error}")
