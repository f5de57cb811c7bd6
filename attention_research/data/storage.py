"""Where prepared data live: `$ATTENTION_RESEARCH_DATA`, by default the user's cache folder.

Everything is written beside its place and renamed into it, so that a killed process leaves no half file and two
processes may prepare the same thing at once; a lock keeps the second from doing the work twice.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attention_research.errors import RunError


def folder(*parts: str) -> Path:
    """The data folder, or a folder inside it; made where it is missing."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attention_research"
    path = Path(os.environ.get("ATTENTION_RESEARCH_DATA") or default).expanduser().absolute().joinpath(*parts)
    with one_line(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def one_line(path: Path) -> Iterator[None]:
    """Turn a failure of the file system (a full disk, no permission) into one line for the user."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot write {path}: {reason}; free space or set ATTENTION_RESEARCH_DATA to another folder"
        raise RunError(message) from error


@contextlib.contextmanager
def written(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, for a file or a folder, renamed to `path` when the block ends well.

    A folder that another process has put there meanwhile stays: what is stored under one name has one content.
    """
    with one_line(path):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            inside = temporary / path.name
            yield inside
            if not (inside.is_dir() and path.exists()):
                os.replace(inside, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time; the kernel frees the lock of a killed one."""
    path = folder("locks") / f"{name.replace('/', '-')}.lock"
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def content_hash(settings: Any, *texts: Iterable[str]) -> str:
    """Hash of settings (as JSON) and of any number of lists of lines, 20 hexadecimal digits.

    Each line is framed by its length, so that no two different lists have the same hash.
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for text in texts:
        digest.update(b"|text|")
        for line in text:
            data = line.encode()
            digest.update(b"%d:" % len(data))
            digest.update(data)
    return digest.hexdigest()[:20]
