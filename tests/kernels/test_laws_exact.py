"""The laws for exact dot-product attention."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("exact"))
def test_law(mechanism, law):
    law(mechanism)
