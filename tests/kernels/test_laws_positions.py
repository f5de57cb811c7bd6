"""The laws for positions."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("positions"))
def test_law(mechanism, law):
    law(mechanism)
