"""The laws for attention over images."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("vision"))
def test_law(mechanism, law):
    law(mechanism)
