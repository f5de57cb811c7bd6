"""The laws for Synthesizers, lightweight and dynamic convolution."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("no_dot_product"))
def test_law(mechanism, law):
    law(mechanism)
