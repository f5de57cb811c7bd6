"""The number of raw tokens that an objective takes for an example, and the lengths of its source and target.

An objective is a pure function of raw tokens [raw] int32 and a `numpy.random.Generator`. It returns (source, target),
int32, both with the end of sentence. `lengths(max_length)` gives the number of raw tokens to pass.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Numbers of tokens of an example: raw tokens, the longest source and target (at most `max_length`), sentinels.

    The arrays of a batch have the lengths `source` and `target`, so an objective that always reaches them needs no
    padding.
    """

    raw: int
    source: int
    target: int
    sentinels: int = 0
