"""Where a number came from: git revision, versions, devices, date, and a fingerprint of the package's own sources."""

from __future__ import annotations

import datetime
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from attention_research import bundled
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


#: How many modified files a record names.
_NAMED = 5
#: What no trial's numbers depend on: how they are asked for, tabulated and drawn.
ABOVE_TRIALS = ("cli", "workdirs", "studies", "analysis", "export.py", *bundled.FOLDERS)


def fingerprint() -> str:
    """12 hex digits of the sources that a trial runs, docstrings and layout apart: another one, other code."""
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in ABOVE_TRIALS]
    return _fingerprint(PACKAGE, tuple((path, (stat := path.stat()).st_mtime_ns, stat.st_size) for path in paths))


@functools.lru_cache(maxsize=1)
def _fingerprint(package: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """Of files as they stand: with their times and sizes, so that a process reads them once."""
    digest = hashlib.sha256()
    for path, _, _ in files:
        digest.update(f"{path.relative_to(package)}\0{code(path.read_text(encoding='utf-8'))}\0".encode())
    return digest.hexdigest()[:12]


def git_revision() -> str:
    """The commit, with "-dirty" where files are `modified`; "unknown" outside a checkout."""
    return _revision(modified())


def _revision(changed: list[str]) -> str:
    try:
        return _git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def modified() -> list[str]:
    """The tracked files that differ from the commit; none outside a checkout.

    Records (``experiments/*/results``) do not count: they are results, no sources, and a command that records one study
    after the other changes them while it runs.
    """
    try:
        names = _git("diff", "--name-only", "-z", "HEAD", "--", ".", ":(exclude,glob)experiments/*/results/**")
    except (OSError, subprocess.CalledProcessError):
        return []
    return [name for name in names.split("\0") if name]


def _git(*arguments: str) -> str:
    if not bundled.in_checkout():
        raise OSError("an installed package has no repository")  # a repository that is there is another one
    command = ["git", "-C", str(PACKAGE.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def keep_compiled_programs() -> None:
    """Lets all processes of this user share what they compile, unless JAX_COMPILATION_CACHE_DIR says where.

    Imports JAX: a process that takes a share of the cores does so before.
    """
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attention_research" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def describe() -> dict[str, Any]:
    """What environment.json holds, beside what the execution adds (strategy, mesh).

    ``modified`` (the first modified files) and ``nice`` are there only where the tree is modified or the priority low.
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
