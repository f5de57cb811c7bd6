"""The laws of every mechanism of the catalogue, family by family."""

import pytest

from tests.catalogue import FAMILIES
from tests.kernels.laws import applicable


@pytest.mark.parametrize("mechanism, law", [case for family in FAMILIES for case in applicable(family)])
def test_law(mechanism, law):
    law(mechanism)
