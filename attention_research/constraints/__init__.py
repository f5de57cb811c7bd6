"""Constraints between settings. They are checked on the resolved config, before any data, device or file is used.

A constraint is a function ``(section, sections) -> (setting, message) | None`` in the module of its subject, and one
line in `CONSTRAINTS` (`constraints.table`) with the families and kinds to which it applies. The ranges of single
settings are in their annotations.
"""

from attention_research.constraints.data import COPYING
from attention_research.constraints.encoders import OTHER_STATES
from attention_research.constraints.packing import COUNT_IN_A_ROW, MIX_A_ROW, MIX_A_ROW_CAUSALLY, READ_A_ROW
from attention_research.constraints.section import Broken, Section
from attention_research.constraints.shapes import filters_divide_width
from attention_research.constraints.table import CONSTRAINTS, broken

__all__ = [
    "CONSTRAINTS", "COPYING", "COUNT_IN_A_ROW", "MIX_A_ROW", "MIX_A_ROW_CAUSALLY", "OTHER_STATES", "READ_A_ROW",
    "Broken", "Section", "broken", "filters_divide_width",
]  # fmt: skip
