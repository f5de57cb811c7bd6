"""The front page of the site: the README of the repository, and below it the outline in `docs/index.md`."""

from __future__ import annotations

import os
import re
from pathlib import Path

README = "README.md"
#: The section of the README that names pages as the outline does. It and what follows are not shown.
END = "\n## Where to go next\n"
#: The first heading of the outline.
BEGIN = "\n## Your way through these pages\n"
_TARGET = re.compile(r"(?<=\]\()(?!https?:|#)[^)#\s]+")


def front_page(root: Path, folder: str, outline: str) -> str:
    """The README up to `END`, then the outline from `BEGIN` on.

    The links of the README begin at the root of the repository; here they begin in `folder`, that of the outline.
    Raises ValueError if one of the two headings is missing.
    """
    readme = (root / README).read_text(encoding="utf-8")
    shown, rest = readme[: readme.index(END)], outline[outline.index(BEGIN) :]
    return _TARGET.sub(lambda link: Path(os.path.relpath(link[0], folder)).as_posix(), shown) + rest
