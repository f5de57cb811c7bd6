"""Attention masks: boolean, True = may attend, 4-D and broadcastable to [B N T S].

Causal masks, windows and lengths are better passed to `dot_product_attention` as arguments, because then masked keys
are not computed.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from attention_research.kernels.integers import as_int32


def causal_mask(query_length: int, key_length: int, *, query_offset: int = 0) -> Bool[Array, "1 1 T S"]:
    """Query i attends to keys 0 to i + query_offset.

    If the lengths differ, an offset of 0 aligns top-left, as in JAX, and S - T aligns bottom-right.

    >>> causal_mask(2, 3)[0, 0].astype(int).tolist()
    [[1, 0, 0], [1, 1, 0]]
    >>> causal_mask(2, 3, query_offset=1)[0, 0].astype(int).tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return jnp.tril(jnp.ones((query_length, key_length), bool), query_offset)[None, None]


def window_mask(
    query_length: int, key_length: int, window: int | tuple[int, int], *, query_offset: int = 0
) -> Bool[Array, "1 1 T S"]:
    """Query i attends to keys i + query_offset - left to i + query_offset + right.

    `window` is (left, right), or one number for both. The window does not count the query's own position: with 0, a
    query attends only to itself. Raises ValueError for negative numbers.

    >>> print(window_mask(3, 4, (1, 0))[0, 0].astype(int))  # one key to the left, none to the right
    [[1 0 0 0]
     [1 1 0 0]
     [0 1 1 0]]
    """
    left, right = (window, window) if isinstance(window, int | np.integer) else window
    if left < 0 or right < 0:
        raise ValueError(f"window: expected (left, right) of at least 0, got {window!r}")
    offset = jnp.arange(key_length)[None, :] - jnp.arange(query_length)[:, None] - query_offset
    return ((offset >= -left) & (offset <= right))[None, None]


def padding_mask(key_is_real: Bool[Array, "B S"]) -> Bool[Array, "B 1 1 S"]:
    """Every query attends to the non-padding keys of its batch element.

    >>> mask = padding_mask(jnp.array([[True, True, False]]))
    >>> mask.shape, mask[0, 0].tolist()
    ((1, 1, 1, 3), [[True, True, False]])
    """
    return key_is_real[:, None, None, :]


def segment_mask(query_segments: Int[Array, "B T"], key_segments: Int[Array, "B S"]) -> Bool[Array, "B 1 T S"]:
    """A query attends to the keys of its own segment (packed examples 1, 2, ...).

    Segment 0 is padding: such a query attends to no key, and no query attends to such a key.

    >>> segments = jnp.array([[1, 1, 2]])  # two sequences packed in one row
    >>> print(segment_mask(segments, segments)[0, 0].astype(int))
    [[1 1 0]
     [1 1 0]
     [0 0 1]]
    """
    query_segments, key_segments = as_int32("query_segments", query_segments), as_int32("key_segments", key_segments)
    same = query_segments[:, :, None] == key_segments[:, None, :]
    return (same & (key_segments != 0)[:, None, :])[:, None]


def combine_masks(*masks: Bool[Array, "#B #N #T #S"] | None) -> Bool[Array, "B N T S"] | None:
    """The logical and of all masks, with broadcasting. None allows everything; the result is None if all are None.

    >>> mask = combine_masks(causal_mask(3, 3), padding_mask(jnp.array([[True, True, False]])), None)
    >>> print(mask[0, 0].astype(int))
    [[1 0 0]
     [1 1 0]
     [1 1 0]]
    """
    combined = None
    for mask in masks:
        if mask is None:
            continue
        if mask.ndim != 4:
            raise ValueError(f"mask: expected 4 axes [B N T S], got shape {list(mask.shape)}")
        combined = mask if combined is None else combined & mask
    return combined
