"""How many raw tokens an objective takes for an example, and how long its source and its target then are.

An objective is called with raw tokens [raw] int32 and a `numpy.random.Generator` and gives (source, target), int32,
both with the end of sentence: a pure function of the two. `lengths(max_length)` says how many tokens to give it.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Raw tokens of an example; the most that its source and target have, at most `max_length`; its sentinels.

    The arrays of a batch are as long as the longest source and target, so an objective that always reaches them pads
    nothing.
    """

    raw: int
    source: int
    target: int
    sentinels: int = 0
