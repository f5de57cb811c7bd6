"""Splits by a hash of the text itself: the same on every machine, in every order, and however much data there is."""

from __future__ import annotations

import hashlib


def share_of(text: str, shares: int = 20) -> int:
    """The one of so many equal shares that a text falls into: its MD5 modulo the shares."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16) % shares


def split_of(text: str, shares: int = 20) -> str:
    """Share 0 is for test, share 1 for validation, the rest for training.

    >>> [split_of(text) for text in ("of", "be", "the")]
    ['test', 'validation', 'train']
    """
    return {0: "test", 1: "validation"}.get(share_of(text, shares), "train")
