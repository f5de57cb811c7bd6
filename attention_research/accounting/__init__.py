"""Counts parameters, FLOPs and bytes from shapes, without allocating arrays, and reads a process's peak memory."""

from attention_research.accounting.flops import Flops, count_flops
from attention_research.accounting.memory import (
    intermediate_bytes,
    peak_bytes,
    peak_resident_bytes,
    reset_peak_resident,
    size_in_bytes,
)
from attention_research.accounting.parameters import ParameterRow, by_prefix, count_parameters

__all__ = [
    "Flops",
    "ParameterRow",
    "by_prefix",
    "count_flops",
    "count_parameters",
    "intermediate_bytes",
    "peak_bytes",
    "peak_resident_bytes",
    "reset_peak_resident",
    "size_in_bytes",
]
