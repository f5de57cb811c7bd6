"""Gives a folder a path without special characters, for libraries that read a path as a pattern or as a URL.

Orbax finds the files of a checkpoint with `glob`, in which "[1]", "*" and "?" are patterns. It contacts a cloud store
for a path with a part such as "gs:". TensorStore rejects a name that is not UTF-8.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from attention_research.errors import RunError

#: Paths that every library reads literally.
_PLAIN = re.compile(r"[A-Za-z0-9_./ ,=+@-]*")
#: Places for the link if the user's folder of temporary files has special characters too.
_TEMPORARY = ("/tmp", "/var/tmp")


def plain_path(folder: Path) -> tuple[Path, tempfile.TemporaryDirectory | None]:
    """The folder itself or a symbolic link to it, and the temporary folder of the link (or None).

    The caller must keep the temporary folder as long as it uses the link. `folder` must be absolute, but need not exist
    yet. Raises RunError if no link can be created.
    """
    if _PLAIN.fullmatch(str(folder)):
        return folder, None
    for place in (tempfile.gettempdir(), *_TEMPORARY):
        if _PLAIN.fullmatch(place):
            try:
                temporary = tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True)
                link = Path(temporary.name) / "folder"
                link.symlink_to(folder, target_is_directory=True)
                return link, temporary
            except OSError:
                continue
    place = tempfile.gettempdir()
    raise RunError(f"{folder}: its name has special characters, and no link to it can be made in {place}")
