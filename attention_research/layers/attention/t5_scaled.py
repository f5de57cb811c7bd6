"""T5's relative position bias with scaled dot products: softmax(Q K^T / sqrt(H) + b_bucket(j - i)) V.

T5 (Raffel et al. 2020) folds 1/sqrt(H) into the initialization of the query projection. Narang et al. 2021 (arXiv
2102.11972) train some models with Adam, whose step size does not depend on the scale of a parameter; for these, the
release applies the scale at run time (`fold_scaling_into_initializer` False).
"""

from __future__ import annotations

from attention_research.layers.attention.t5 import T5Attention


class ScaledT5Attention(T5Attention):
    """T5's attention with the scale 1/sqrt(H)."""

    scale = None
