"""The laws for what changes dot-product attention in one place."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("variants"))
def test_law(mechanism, law):
    law(mechanism)
