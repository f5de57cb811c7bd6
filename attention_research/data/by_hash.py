"""Splits by a hash of the text, independent of the machine, the order and the amount of data."""

from __future__ import annotations

import hashlib


def share_of(text: str, shares: int = 20) -> int:
    """The number of a text's share, of `shares` equal shares: its MD5 modulo `shares`."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16) % shares


def split_of(text: str, shares: int = 20) -> str:
    """The split of a text: share 0 is test, share 1 validation, the rest training.

    >>> [split_of(text) for text in ("of", "be", "the")]
    ['test', 'validation', 'train']
    """
    return {0: "test", 1: "validation"}.get(share_of(text, shares), "train")
