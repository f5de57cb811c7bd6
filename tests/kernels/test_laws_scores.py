"""The laws for alignment scores and the general attention layer."""

import pytest

from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", applicable("scores"))
def test_law(mechanism, law):
    law(mechanism)
