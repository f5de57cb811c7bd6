"""The laws for copying and coverage."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("copying"))
def test_law(mechanism, law):
    law(mechanism)
