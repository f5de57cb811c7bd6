"""A folder under a name without special characters, for libraries that read a path as a pattern or as a URL.

Orbax finds the files of a checkpoint with `glob`, in which "[1]", "*" and "?" stand for other names; a part such as
"gs:" makes it ask a cloud store, and TensorStore refuses a name that is not UTF-8.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from attention_research.errors import RunError

#: What no library reads as anything but a name.
_PLAIN = re.compile(r"[A-Za-z0-9_./ ,=+@-]*")
#: Where the link may lie if the user's folder of temporary files has a special name too.
_TEMPORARY = ("/tmp", "/var/tmp")


def plain_path(folder: Path) -> tuple[Path, tempfile.TemporaryDirectory | None]:
    """The folder itself, or a symbolic link to it, and the temporary folder that holds the link and must outlive it.

    The folder must be absolute; it need not exist yet. Raises RunError where no link can be made.
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
