"""The rule by which a difference is clear (`studies.verdicts`), for numbers that are no single column of a trial."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def clearly_above(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Every seed of ours is above every one of theirs, and the means differ by more than twice the standard error of
    their difference; with fewer than two seeds a side nothing is clear.

    >>> clearly_above([3.0, 3.1], [1.0, 1.2]), clearly_above([3.0, 1.1], [1.0, 1.2]), clearly_above([3.0], [1.0])
    (True, False, False)
    """
    if min(len(ours), len(theirs)) < 2:
        return False
    error = math.sqrt(sum(statistics.variance(values) / len(values) for values in (ours, theirs)))
    return min(ours) > max(theirs) and statistics.fmean(ours) - statistics.fmean(theirs) > 2 * error
