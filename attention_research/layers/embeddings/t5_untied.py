"""T5's vocabulary with three untied tables: "Untied embeddings" of Narang et al. 2021 (arXiv 2102.11972, Table 1).

It follows Chung et al. 2021 (arXiv 2010.12821) and has 2 V D parameters more than `t5`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.layers.embeddings.t5_untied_output import T5UntiedOutputVocabulary
from attention_research.signatures import Positive


class T5UntiedVocabulary(T5UntiedOutputVocabulary):
    """`source_table` [V D] embeds source tokens and `table` [V D] target tokens. The logits are hidden kernel.

    Both tables are initialized from N(0, 1), and embeddings are not scaled.
    """

    def __init__(self, *, vocabulary_size: Positive, width: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(vocabulary_size=vocabulary_size, width=width, rngs=rngs, **inherited)
        self.source_table = nnx.Param(jax.random.normal(rngs.params(), (vocabulary_size, width), jnp.float32))

    def source(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of source tokens."""
        return self.source_table[...][as_int32("ids", ids)].astype(self.dtype)
