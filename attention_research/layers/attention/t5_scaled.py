"""T5's relative position bias beside scaled dot products: softmax(Q K^T / sqrt(H) + b_bucket(j - i)) V.

T5 (Raffel et al. 2020) folds 1/sqrt(H) into the start of the queries; where Narang et al. 2021 (arXiv 2102.11972) train
with Adam, whose steps do not follow a parameter's size, the release scales at run time (`fold_scaling_into_initializer`
False).
"""

from __future__ import annotations

from attention_research.layers.attention.t5 import T5Attention


class ScaledT5Attention(T5Attention):
    """`t5` with the scale 1/sqrt(H)."""

    scale = None
