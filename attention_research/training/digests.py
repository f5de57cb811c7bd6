"""Detects damaged checkpoints by the sizes and CRC-32 checksums of their files, which are stored in the folder.

Orbax does not detect a flipped bit in the file of an array, so it would restore a damaged checkpoint without an error.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path

NAME = "digests.json"
#: Files that Orbax writes or changes after the arrays are complete. They have no digest.
LATER = ("_CHECKPOINT_METADATA", "commit_success.txt")


def seal(folder: Path) -> None:
    """Writes digests.json with the size and checksum of every file in the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (NAME, *LATER))
    (folder / NAME).write_text(json.dumps({str(path.relative_to(folder)): _digest(path) for path in files}))


def fingerprint(folder: Path) -> str:
    """12 hex digits that identify the content of a sealed folder."""
    return hashlib.sha256((folder / NAME).read_bytes()).hexdigest()[:12]


def damage(folder: Path, *, contents: bool = True) -> str | None:
    """A description of the damage of a sealed folder, or None if it is intact. Without `contents`, only names and sizes
    are compared.

    >>> from tempfile import TemporaryDirectory
    >>> temporary = TemporaryDirectory()
    >>> folder = Path(temporary.name)
    >>> size = (folder / "array").write_bytes(b"1234")
    >>> seal(folder)
    >>> damage(folder) is None
    True
    >>> size = (folder / "array").write_bytes(b"1235")
    >>> damage(folder)
    'array has other bytes'
    """
    try:
        digests = json.loads((folder / NAME).read_text())
        for name, (size, crc) in digests.items():
            now = _digest(folder / name) if contents else ((folder / name).stat().st_size, crc)
            if now != (size, crc):
                return f"{name} has {now[0]} bytes of {size}" if now[0] != size else f"{name} has other bytes"
    except FileNotFoundError as error:
        return f"{Path(error.filename).relative_to(folder)} is missing"
    except OSError as error:
        return f"{Path(error.filename or folder).name}: {error.strerror}"
    except (ValueError, AttributeError, TypeError):
        return f"{NAME} is not a list of digests"
    return None


def _digest(path: Path) -> tuple[int, int]:
    size = crc = 0
    with path.open("rb") as file:
        while block := file.read(2**20):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return size, crc
