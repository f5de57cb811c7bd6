"""A folder's files with their sizes and CRC-32s, kept in the folder: whether it is whole, to the last bit.

Orbax reads arrays whose files lost a bit without a word: a damaged checkpoint could not be told from a good one.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path

NAME = "digests.json"
#: What Orbax still writes, or writes again, after the arrays are complete.
LATER = ("_CHECKPOINT_METADATA", "commit_success.txt")


def seal(folder: Path) -> None:
    """Writes digests.json about every file that is there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (NAME, *LATER))
    (folder / NAME).write_text(json.dumps({str(path.relative_to(folder)): _digest(path) for path in files}))


def fingerprint(folder: Path) -> str:
    """12 hex digits of a sealed folder's content."""
    return hashlib.sha256((folder / NAME).read_bytes()).hexdigest()[:12]


def damage(folder: Path, *, contents: bool = True) -> str | None:
    """What is wrong with a sealed folder, or None; without `contents` only names and sizes are compared."""
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
        return f"{NAME} is no list of digests"
    return None


def _digest(path: Path) -> tuple[int, int]:
    size = crc = 0
    with path.open("rb") as file:
        while block := file.read(2**20):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return size, crc
