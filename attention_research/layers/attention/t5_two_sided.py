"""T5's relative position bias with bidirectional buckets in all cases, for prefix language models.

In a prefix language model (Raffel et al. 2020, section 3.2.2), attention is bidirectional within the source and causal
after it. The released code uses one table of bidirectional buckets for the whole sequence; half of the buckets are for
keys after the query. In a stack of kind `prefix`, the name "t5" means this attention.
"""

from __future__ import annotations

from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.t5 import T5Attention


class TwoSidedT5Attention(T5Attention):
    """T5's attention with a bias that does not depend on whether the attention is causal."""

    def bidirectional(self, where: Where) -> bool:
        """Always True."""
        return True
