"""A learned scalar bias in place of a norm, at the end of Fixup's decoder in Narang et al. 2021 (`layers.shift`)."""

from __future__ import annotations

from attention_research.layers.shift import Shift


class ScalarShift(Shift):
    """x + b with b initialized to 0, in place of the final norm of a stack without norms."""
