"""Marks the slow variants of a parametrised test."""

from collections.abc import Collection, Mapping

import pytest


def fast_are(fast: Collection[str], cases: Collection, *, several: bool = False) -> list:
    """Parameters of all cases. Those whose id is not in `fast` keep their id and are marked slow.

    The id is the key of a mapping's case, and the text of any other case. `several`: a case is a tuple of parameters.
    """
    return _marked(fast, cases, [], [pytest.mark.slow], several)


def slow_are(slow: Collection[str], cases: Collection) -> list:
    """Parameters of all cases. Those whose id is in `slow` are marked slow, and the others long."""
    return _marked(slow, cases, [pytest.mark.slow], [pytest.mark.long])


def _marked(named: Collection[str], cases: Collection, inside: list, outside: list, several: bool = False) -> list:
    values = cases if isinstance(cases, Mapping) else {str(case): case for case in cases}
    assert set(named) <= values.keys(), set(named) - values.keys()
    marks = {name: inside if name in named else outside for name in values}
    return [pytest.param(*(case if several else [case]), id=name, marks=marks[name]) for name, case in values.items()]
