"""Loads config files, which define ``get_config(variant)`` and ``VARIANTS``.

A packaged config is given by its name, such as ``translation/transformer[:variant]``, and your own config by its file.
The path ``configs/translation/transformer.py`` also refers to the packaged config if the file does not exist.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attention_research import bundled
from attention_research.config.errors import ConfigError, nearest, offer
from attention_research.config.overrides import Override
from attention_research.config.record import Config, resolve
from attention_research.config.values import plain


def load(spec: str, overrides: Iterable[Override] = ()) -> Config:
    """The resolved config of ``name[:variant]`` or ``file.py[:variant]`` with overrides. The default is the first
    variant.

    Raises `ConfigError` with one line before any slow operation. Does not import JAX, unless the file does.

    >>> config = load("translation/transformer:cpu", [("model.num_heads", "8")])
    >>> config.resolved["model"]["num_heads"]
    8
    """
    path, variant = split(str(spec))
    module = config_file(path)
    names = _variants(module, path)
    variant = variant or next(iter(names))
    if variant not in names:
        raise ConfigError(f"{path}: no variant {variant!r}; {offer(variant, names)}")
    return resolve(_given(module, path, variant), overrides, spec=f"{path}:{variant}")


def split(spec: str) -> tuple[str, str]:
    """The path and the variant of ``path[:variant]``; '' without a variant. The path of a file may contain colons.

    >>> split("translation/transformer:cpu"), split("mine.py"), split("of:mine/mine.py")
    (('translation/transformer', 'cpu'), ('mine.py', ''), ('of:mine/mine.py', ''))
    """
    path, colon, variant = spec.rpartition(":")
    return (spec, "") if not colon or "/" in variant or os.path.isfile(spec) else (path, variant)


def variants(path: str | Path) -> dict[str, str]:
    """Variant -> its description in one line, or '' if the file does not have one.

    >>> "cpu" in variants("translation/transformer")
    True
    """
    return _variants(config_file(path), path)


def packaged_configs() -> list[str]:
    """The names of the configs that come with the package, such as "translation/transformer".

    >>> "translation/transformer" in packaged_configs()
    True
    """
    home = bundled.folder("configs")
    return sorted(path.relative_to(home).with_suffix("").as_posix() for path in _files(home, "**/*.py"))


def config_file(name: str | Path) -> ModuleType:
    """Runs a config file, packaged or your own, and returns it as a module with ``get_config`` and ``VARIANTS``.

    A config file of your own can start from a packaged one::

        from attention_research.config import config_file

        VARIANTS = {"narrow": "half as wide"}

        def get_config(variant):
            config = config_file("translation/transformer").get_config("cpu")
            config.model.width //= 2
            return config

    Raises `ConfigError` if the file does not exist or fails.
    """
    path = _path(Path(name))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        exec(_compiled(path.read_text(encoding="utf-8"), str(path)), module.__dict__)
    except (Exception, SystemExit) as error:
        raise failure(path, error) from error
    return module


def _path(given: Path) -> Path:
    """The file with this path if it exists, otherwise the packaged config of this name."""
    if os.path.isfile(given):  # Path.is_file raises for a name that is too long
        return given
    names = packaged_configs()
    name = given.as_posix().removeprefix("configs/").removesuffix(".py")
    if name in names:
        return bundled.folder("configs") / f"{name}.py"
    own = [path.as_posix() for path in (*_files(given.parent, "*.py"), *_files(Path("configs"), "**/*.py"))]
    close = nearest(given.as_posix(), [*own, *names, *(f"configs/{name}.py" for name in names)])
    raise ConfigError(f"{given}: no such config file" + (f"; did you mean {close}?" if close else ""))


def _files(folder: Path, pattern: str) -> list[Path]:
    return [path for path in folder.glob(pattern) if not path.name.startswith("_")] if os.path.isdir(folder) else []


@lru_cache(maxsize=64)
def _compiled(text: str, path: str) -> CodeType:
    """Compiles a file. The cache is useful because a study loads the same file for each of its rows."""
    return compile(text, path, "exec")


def _variants(module: ModuleType, path: str | Path) -> dict[str, str]:
    names = getattr(module, "VARIANTS", None)
    named = isinstance(names, (Mapping, tuple, list)) and all(isinstance(name, str) for name in names)
    if not callable(getattr(module, "get_config", None)) or not names or not named:
        raise ConfigError(f"{path}: a config file defines get_config(variant) and VARIANTS (name -> one line)")
    return dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, "")


def _given(module: ModuleType, path: str, variant: str) -> dict[str, Any]:
    from ml_collections import ConfigDict

    try:
        given = module.get_config(variant)
        if isinstance(given, ConfigDict):
            given = given.copy_and_resolve_references().to_dict()
    except (Exception, SystemExit) as error:
        raise failure(path, error) from error
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: get_config({variant!r}) gave {type(given).__name__}; expected a ConfigDict")
    return plain(given)


def failure(path: str | Path, error: Exception | SystemExit) -> ConfigError:
    """An error of a config file, or its call of sys.exit, as one line with the line number in the file.

    A signal that stops this process (`training.interruption`) is raised again.
    """
    if isinstance(error, SystemExit) and type(error) is not SystemExit:
        raise error
    if isinstance(error, SyntaxError):
        return ConfigError(f"{path}:{error.lineno}: {error.msg}")
    frames, whole = traceback.extract_tb(error.__traceback__), os.path.abspath(path)
    lines = [frame.lineno for frame in frames if os.path.abspath(frame.filename) == whole]
    said = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    said = f"ends the program ({said})" if isinstance(error, SystemExit) else said
    return ConfigError(f"{path}{f':{lines[-1]}' if lines else ''}: {said}")
