"""The laws for attention cheaper than quadratic."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("efficient"))
def test_law(mechanism, law):
    law(mechanism)
