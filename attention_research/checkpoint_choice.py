"""The choice of a checkpoint, the same for commands, settings and studies: the last one, the best one, or a step."""

from __future__ import annotations

NAMES = ("last", "best")
EXPECTED = "last, best or a step"


def is_choice(wanted: str | int) -> bool:
    """Whether the value chooses a checkpoint. A step is an integer.

    >>> is_choice("best"), is_choice(800), is_choice("newest")
    (True, True, False)
    """
    return wanted in NAMES if isinstance(wanted, str) else True


def read(text: str) -> str | int:
    """The choice that a setting spells: digits are a step. Other text is returned as it is (see `is_choice`).

    >>> read("800"), read("best")
    (800, 'best')
    """
    return int(text) if text.isdecimal() else text
