"""A short hash of the data of a run: their content, and the batches that are made of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from attention_research.data.protocol import Data


def checksum(data: Data, *, batch_size: int, split: str, rows: int, examples: int | None) -> str:
    """12 hex digits: a hash of the content of prepared data (`fingerprint`), of the first training batch for seed 0,
    and of the first evaluation batch, with `rows` rows, of a split."""
    ids, evaluated = next(iter(data.evaluation_batches(split, rows, examples=examples)))
    digest = hashlib.sha256(data.fingerprint.encode())
    for batch in (data.batch_at(0, 0, batch_size), {**evaluated, "ids": ids}):
        for name, array in sorted(batch.items()):
            content = np.ascontiguousarray(array)
            digest.update(f"\0{name} {content.dtype} {content.shape}\0".encode())
            digest.update(content.data)
    return digest.hexdigest()[:12]


def of_config(data: Data, resolved: Mapping[str, Any]) -> str:
    """The `checksum` of the prepared data of a resolved config."""
    evaluation = resolved["evaluation"]
    return checksum(
        data,
        batch_size=resolved["training"]["batch_size"],
        split=evaluation["split"],
        rows=evaluation["batch_size"],
        examples=evaluation["examples"],
    )
