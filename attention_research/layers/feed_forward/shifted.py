"""Fixup's feed-forward, Zhang et al. 2019 (arXiv 1901.09321), section 3: FFN(x) = (relu(x W1) + b) W2, b a scalar.

It has no bias vectors. The paper has a scalar before every layer and every activation. The scalar before W1 belongs to
the branch (the step "shift"). The scalar between W1 and the activation is omitted, as in Mesh TensorFlow.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.linear import Linear
from attention_research.layers.shift import Shift
from attention_research.signatures import Positive


class ShiftedFeedForward(nnx.Module):
    """Fixup's feed-forward, [B T D] -> [B T F] -> [B T D], with b initialized to 0.

    `layers.initialization.fixup` initializes W1 and W2.
    """

    def __init__(self, *, width: Positive, hidden_width: Positive, rngs: nnx.Rngs):
        self.hidden = Linear(width, hidden_width, use_bias=False, rngs=rngs)
        self.shift = Shift(rngs=rngs)
        self.output = Linear(hidden_width, width, use_bias=False, rngs=rngs)

    def __call__(self, x: Float[Array, "B T D"]) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        return self.output(self.shift(jax.nn.relu(self.hidden(x)))), {}
