"""Describes the environment of a result: git revision, versions, devices, date, and a hash of the package's sources."""

from __future__ import annotations

import contextlib
import datetime
import functools
import glob
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from attention_research import bundled
from attention_research.errors import ConfigError
from attention_research.source_text import code

PACKAGE = bundled.PACKAGE
VERSIONS = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "tensorflow-datasets",
    "sentencepiece",
    "sacrebleu",
)


#: The maximum number of modified files that a record lists.
_NAMED = 5
#: Parts of the package that do not affect the numbers of a trial: command line, tables and figures.
ABOVE_TRIALS = ("cli", "workdirs", "studies", "analysis", "export.py", *bundled.FOLDERS)


def fingerprint() -> str:
    """12 hex digits of the sources that a trial runs, ignoring docstrings and layout. They change with the code."""
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in ABOVE_TRIALS]
    return _fingerprint(PACKAGE, tuple((path, (stat := path.stat()).st_mtime_ns, stat.st_size) for path in paths))


@functools.lru_cache(maxsize=1)
def _fingerprint(package: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """The hash of these files. Their times and sizes are arguments, so the cache holds while no file changes."""
    digest = hashlib.sha256()
    for path, _, _ in files:
        digest.update(f"{path.relative_to(package)}\0{code(path.read_text(encoding='utf-8'))}\0".encode())
    return digest.hexdigest()[:12]


def git_revision() -> str:
    """The commit, followed by "-dirty" if files are `modified`; "unknown" outside a checkout."""
    return _revision(modified())


def _revision(changed: list[str]) -> str:
    try:
        return _git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def modified() -> list[str]:
    """The tracked files that differ from the commit. The list is empty outside a checkout.

    Records (``experiments/*/results``) are excluded. They are results and not sources, and a command that records
    several studies changes them while it runs.
    """
    try:
        names = _git("diff", "--name-only", "-z", "HEAD", "--", ".", ":(exclude,glob)experiments/*/results/**")
    except (OSError, subprocess.CalledProcessError):
        return []
    return [name for name in names.split("\0") if name]


def _git(*arguments: str) -> str:
    if not bundled.in_checkout():
        raise OSError("an installed package has no repository")  # git would find an unrelated one
    command = ["git", "-C", str(PACKAGE.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


#: A warning of JAX about an entry of its cache of compiled programs.
_OF_THE_CACHE = re.compile(
    r"Error (?P<what>reading|writing) persistent compilation cache entry for '(?P<program>[^']+)': (?P<reason>.+)", re.S
)


def keep_compiled_programs() -> None:
    """Enables the compilation cache of JAX in a folder of the user, unless JAX_COMPILATION_CACHE_DIR is set.

    All processes of the user share this cache. The function imports JAX: a process that restricts itself to some of the
    cores must do that before the call.
    """
    import jax

    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if not folder:
        folder = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attention_research" / "xla")
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    _warn_once_of_the_cache(folder)


def _warn_once_of_the_cache(folder: str) -> None:
    """Replaces the warnings of JAX about its cache, two lines for each program, by one line for the process.

    A full disk leaves the first part of an entry, which JAX would never write again. It is deleted.
    """
    told, others = list[str](), warnings.showwarning

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        found = _OF_THE_CACHE.match(str(message))
        if found is None:
            return others(message, *where, **more)
        if found["what"] == "writing" and found["reason"].startswith("OSError"):
            entries = Path(folder).glob(f"{glob.escape(found['program'])}-*-cache")
            with contextlib.suppress(OSError, ValueError):  # ValueError: there is none
                max(entries, key=lambda path: path.stat().st_mtime_ns).unlink()
        if not told:
            reason = found["reason"].splitlines()[0]
            told.append(reason)
            print(f"compiled programs cannot be kept in {folder} ({reason}): programs are compiled again",
                  file=sys.stderr, flush=True)  # fmt: skip

    warnings.showwarning = show


def missing_backend(error: Exception) -> ConfigError | None:
    """The line for an `error` that JAX raised because it lacks a backend of JAX_PLATFORMS; None for any other error."""
    given = os.environ.get("JAX_PLATFORMS")
    if not given or "jax" not in sys.modules or not isinstance(error, AssertionError | RuntimeError):
        return None
    import jax

    try:
        jax.devices()
    except (AssertionError, RuntimeError) as again:
        reason = str(again).partition(" (set JAX_PLATFORMS")[0].rstrip(".") or "JAX has no such device here"
        return ConfigError(f"JAX_PLATFORMS={given}: {reason}; unset it to use the devices that are there")
    return None


def describe() -> dict[str, Any]:
    """The content of environment.json, without the entries of the execution (strategy, mesh).

    ``modified`` (the first modified files) is present only if the tree is modified, and ``nice`` only if the process
    has a low priority.
    """
    import jax

    devices, changed, nice = jax.devices(), modified(), os.nice(0)
    return {
        "git_revision": _revision(changed),
        **({"modified": changed[:_NAMED]} if changed else {}),
        **({"nice": nice} if nice > 0 else {}),
        "fingerprint": fingerprint(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
        "devices": [device.device_kind for device in devices],
        "backend": jax.default_backend(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "command": sys.argv,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"
