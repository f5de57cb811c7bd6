"""T5's relative position bias with buckets for both directions wherever it stands: that of a prefix language model.

A prefix language model (Raffel et al. 2020, section 3.2.2) looks ahead within its source and only back after it. The
released code has one table of bidirectional buckets for all of it, half of them for keys after the query. In a stack of
kind `prefix` it is what "t5" means.
"""

from __future__ import annotations

from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.t5 import T5Attention


class TwoSidedT5Attention(T5Attention):
    """`t5` whose bias does not depend on whether its attention is causal."""

    def bidirectional(self, where: Where) -> bool:
        """Always."""
        return True
