"""The laws for attention that selects."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("selection"))
def test_law(mechanism, law):
    law(mechanism)
