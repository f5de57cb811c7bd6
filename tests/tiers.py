"""Marks the slow variants of a parametrised test."""

from collections.abc import Collection, Mapping

import pytest


def fast_are(fast: Collection[str], cases: Collection, *, several: bool = False) -> list:
    """Parameters of all cases. Those whose id is not in `fast` keep their id and are marked slow.

    The id is the key of a mapping's case, and the text of any other case. `several`: a case is a tuple of parameters.
    """
    values = cases if isinstance(cases, Mapping) else {str(case): case for case in cases}
    assert set(fast) <= values.keys(), set(fast) - values.keys()
    marks = {name: [pytest.mark.slow] * (name not in fast) for name in values}
    return [pytest.param(*(case if several else [case]), id=name, marks=marks[name]) for name, case in values.items()]
