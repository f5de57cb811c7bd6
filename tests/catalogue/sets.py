"""Attention that maps sets to sets."""

from __future__ import annotations

from attention_research.kernels.sets import set_attention, slot_attention
from tests.catalogue.mechanism import Mechanism

MECHANISMS = (
    Mechanism(
        set_attention,
        oracle="sets::set_attention_is_the_released_blocks",
        permutable=("T", "S"),
        breaks=("empty",),  # the query remains
        blockwise=True,
    ),
    Mechanism(
        slot_attention,
        oracle="sets::slot_attention_is_the_algorithm",
        sizes={"M": 3},
        permutable=("M", "S"),
    ),
)
