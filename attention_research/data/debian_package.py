"""A pinned, checksummed package of the Debian archive, downloaded with apt-get and read as an archive.

Nothing is installed, and no script of the package runs; neither downloading nor reading needs root. A .deb is an `ar`
archive (deb(5)) of three files. The last one, data.tar, compressed according to its suffix, holds the files to install.
Use `registry_package.fetch` to download it.
"""

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar

from attention_research.data.registry_package import Package
from attention_research.errors import RunError

_MAGIC = b"!<arch>\n"
_HEADER = 60


@dataclass(frozen=True)
class DebianPackage(Package):
    """A package of the Debian archive: its name, version, SHA-256 and size in bytes."""

    registry: ClassVar[str] = "Debian's archive"
    advice: ClassVar[str] = "run `apt-get update` as root, or put the .deb of packages.debian.org at"
    suffix: ClassVar[str] = ".deb"

    @property
    def pin(self) -> str:
        return f"{self.name}={self.version}"

    def command(self, folder: Path) -> tuple[str, ...]:
        """The apt-get command; it writes into the folder that it runs in."""
        return ("apt-get", "download", "--quiet", self.pin)


def files(archive: Path, keep: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(path, content) of every file of the package whose path `keep` accepts, in the order of the archive.

    Paths have the form "usr/share/datasets/..."; links are left out.
    """
    with open(archive, "rb") as file:
        name = _seek(file, "data.tar")
        try:
            with tarfile.open(fileobj=file, mode="r|*") as packed:
                for member in packed:
                    path = member.name.removeprefix("./")
                    if member.isfile() and keep(path):
                        yield path, packed.extractfile(member).read()  # type: ignore[union-attr]  # a file
        except tarfile.ReadError as error:
            raise RunError(f"cannot read {name} in {archive}: {error}") from error


def _seek(file: BinaryIO, name: str) -> str:
    """Seeks to the content of the first member whose name begins with `name`, and returns its full name."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise RunError(f"{file.name} is no .deb")
    while header := file.read(_HEADER):
        found = header[:16].decode("ascii").rstrip().rstrip("/")
        if found.startswith(name):
            return found
        size = int(header[48:58])
        file.seek(size + size % 2, 1)  # members begin at even offsets
    raise RunError(f"{file.name} has no {name}")
