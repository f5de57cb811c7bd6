"""T5's buckets of distances (Raffel et al. 2020, released code): which numbers of buckets and distances are possible.

Half of the buckets have one distance each, and the others share the distances up to a largest one. In both directions,
as in an encoder, each direction has half of the buckets. Imports nothing, so that checks are fast.
"""

from __future__ import annotations


def impossible(num_buckets: int, max_distance: int, *, bidirectional: bool) -> tuple[str, str] | None:
    """The setting that leaves no bucket for an exact distance, or none for a larger one, and what is wrong with it.

    >>> impossible(32, 8, bidirectional=True)
    ('max_distance', 'expected more than 8, got 8; 32 buckets have 8 exact distances')
    >>> impossible(32, 9, bidirectional=True)
    """
    parts = 4 if bidirectional else 2
    if num_buckets < parts:
        return "num_buckets", f"expected at least {parts}, got {num_buckets}"
    exact = num_buckets // parts
    if max_distance > exact:
        return None
    said = f"{num_buckets} buckets have {exact} exact distances"
    return "max_distance", f"expected more than {exact}, got {max_distance}; {said}"
