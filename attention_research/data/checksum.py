"""What a run reads, as one short hash: the content of its data, and how batches are made of it."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from attention_research.data import prepared


def checksum(data: Any, *, batch_size: int, split: str, rows: int, examples: int | None) -> str:
    """12 hex digits of prepared data: their content (`fingerprint`), the first batch of training for seed 0, and the
    first batch of `rows` that evaluation reads of a split."""
    ids, evaluated = next(iter(data.evaluation_batches(split, rows, examples=examples)))
    digest = hashlib.sha256(data.fingerprint.encode())
    for batch in (data.batch_at(0, 0, batch_size), {**evaluated, "ids": ids}):
        for name, array in sorted(batch.items()):
            content = np.ascontiguousarray(array)
            digest.update(f"\0{name} {content.dtype} {content.shape}\0".encode())
            digest.update(content.data)
    return digest.hexdigest()[:12]


def stamp(data: Any) -> str | None:
    """Changes whenever the files that data are made of may have changed; "" where code alone makes them, None where
    that cannot be told."""
    choice = getattr(data, "_choice", None)
    return "" if choice is None else choice.stamp()


def is_here(data: Any) -> bool:
    """Whether data can be read without being fetched, built or tokenised first. What code makes can always be."""
    if not hasattr(data, "_choice"):
        return True
    with contextlib.suppress(Exception):  # the data are not on this machine: each kind raises an error of its own
        return prepared.found(data._choice, data._new_tokenizer()) is not None
    return False


def of_config(data: Any, resolved: Mapping[str, Any]) -> str:
    """The `checksum` of the prepared data of a resolved config."""
    evaluation = resolved["evaluation"]
    return checksum(
        data,
        batch_size=resolved["training"]["batch_size"],
        split=evaluation["split"],
        rows=evaluation["batch_size"],
        examples=evaluation["examples"],
    )
