"""Marks the slow and the long cases of a parametrised test."""

from collections.abc import Collection, Mapping

import pytest


def fast_are(
    fast: Collection[str], cases: Collection, *, slow: Collection[str] | None = None, several: bool = False
) -> list:
    """Parameters of all cases. Those whose id is not in `fast` are marked: slow if the id is in `slow`, or else long.

    The id is the key of a mapping's case, and the text of any other case. Without `slow`, all others are slow.
    `several`: a case is a tuple of parameters.
    """
    values = cases if isinstance(cases, Mapping) else {str(case): case for case in cases}
    slow = values.keys() - fast if slow is None else slow
    assert {*fast, *slow} <= values.keys(), {*fast, *slow} - values.keys()
    marks = {name: [] if name in fast else [pytest.mark.slow if name in slow else pytest.mark.long] for name in values}
    return [pytest.param(*(case if several else [case]), id=name, marks=marks[name]) for name, case in values.items()]


def slow_are(slow: Collection[str], cases: Collection) -> list:
    """Parameters of all cases. Those whose id is in `slow` are marked slow, and the others long."""
    return fast_are((), cases, slow=slow)
