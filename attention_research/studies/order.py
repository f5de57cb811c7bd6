"""The order in which studies are recorded: first as a file lists them, then by the number of their claims.

Each line of the file is the name of a study and, optionally, a scale, as in ``lectures/positions cpu``. A line with a
scale applies to this scale only, a line without one to every scale. Text after a ``#`` is a comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attention_research import bundled
from attention_research.errors import ConfigError
from attention_research.studies.study import SCALES, nearest_of

ORDER = "order.txt"


def in_order(claims: Mapping[str, int], scale: str, file: Path | None = None) -> list[str]:
    """The study names of `claims` (study -> number of claims): first those in the file, then those with most claims.

    The default file is `ORDER` beside the studies, if it exists. Raises ConfigError for an unknown study or scale in
    the file.
    """
    beside = bundled.folder("experiments") / ORDER
    first = _read(file or beside, scale, list(claims)) if file or beside.exists() else []
    rest = sorted(claims, key=lambda name: (-claims[name], name))
    return list(dict.fromkeys([*first, *rest]))


def _read(file: Path, scale: str, known: Sequence[str]) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--order={file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        name, *scales = words
        if name not in known:
            raise ConfigError(f"{file}:{number}: no study {name!r}; {nearest_of(name, known)}")
        given, there = " ".join(scales), (*SCALES, scale)
        if given and given not in there:
            near = nearest_of(given, there)
            raise ConfigError(f"{file}:{number}: expected STUDY [SCALE]; no scale {given!r}; {near}")
        if not scales or scales == [scale]:
            found.append(name)
    return found
