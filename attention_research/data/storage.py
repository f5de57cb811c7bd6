"""Storage of prepared data in `$ATTENTION_RESEARCH_DATA`, by default the user's cache folder.

Every file is written under a temporary name and then renamed, so that a killed process leaves no partial file and two
processes may prepare the same data at once. A lock prevents the second from repeating the work.
"""

import contextlib
import errno
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

#: The numbers of the errors of a file system or folder that may only be read.
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def folder(*parts: str) -> Path:
    """The data folder, or a folder inside it; created if it is missing."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attention_research"
    path = Path(os.environ.get("ATTENTION_RESEARCH_DATA") or default).expanduser().absolute().joinpath(*parts)
    with one_line(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def one_line(path: Path) -> Iterator[None]:
    """Turns a file system error (a full disk, no permission) into one line for the user."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot write {path}: {reason}; free space or set ATTENTION_RESEARCH_DATA to another folder"
        raise RunError(message) from error


@contextlib.contextmanager
def unless_read_only() -> Iterator[None]:
    """Ignores the error of a folder that this process may only read, for a file that only saves time."""
    try:
        yield
    except RunError as error:
        if getattr(error.__cause__, "errno", None) not in _READ_ONLY:
            raise


@contextlib.contextmanager
def written(path: Path) -> Iterator[Path]:
    """A temporary path next to `path`, for a file or a folder; it is renamed to `path` if the block ends without error.

    If another process has created the folder in the meantime, that folder is kept: a name determines the content.
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
    """Lets one process in at a time; the kernel frees the lock of a killed process.

    In a folder that this process may only read there is no lock. Prepared data can be used from there, since every file
    in it is complete.
    """
    path = folder("locks") / f"{name.replace('/', '-')}.lock"
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "w"))
        except OSError as error:
            if error.errno not in _READ_ONLY:
                with one_line(path):
                    raise
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def content_hash(settings: Any, *texts: Iterable[str]) -> str:
    """A hash of settings (as JSON) and of any number of lists of lines, 20 hexadecimal digits.

    Each line is preceded by its length, so that different lists are hashed as different bytes.

    >>> content_hash({"pieces": 8000}, ["a line"]) == content_hash({"pieces": 8000}, ["a", "line"])
    False
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for text in texts:
        digest.update(b"|text|")
        for line in text:
            data = line.encode()
            digest.update(b"%d:" % len(data))
            digest.update(data)
    return digest.hexdigest()[:20]
