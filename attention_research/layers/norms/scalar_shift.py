"""No normalisation but one learned scalar added: the end of Fixup's decoder in Narang et al. 2021 (`layers.shift`)."""

from __future__ import annotations

from attention_research.layers.shift import Shift


class ScalarShift(Shift):
    """x + b, b 0 at first: where a stack without norms has its last one."""
