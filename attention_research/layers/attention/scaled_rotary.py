"""Rotary attention for sequences longer than in training, Peng et al. 2023 (arXiv 2309.00071): rotary positions with
other frequencies.

    linear      position interpolation: all frequencies divided by the factor (Chen et al. 2023, arXiv 2306.15595)
    ntk         a larger base
    dynamic     a base that grows with the length, from the original length on
    yarn        only long wavelengths are interpolated; queries and keys are multiplied by 0.1 log(factor) + 1
    longrope    given divisors, up to the original length and above (Ding et al. 2024, arXiv 2402.13753)
    llama3      only long wavelengths are interpolated (Llama Team 2024, arXiv 2407.21783)

The equations are those of `kernels.positions.rotary_scaling`. It has no parameters, so that a rotary model is
evaluated at other lengths by another config.
"""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.kernels import positions as kernels
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.layers.attention.rotary import expect_even
from attention_research.signatures import Positive, PositiveFloat


class ScaledRotaryAttention(MultiHeadAttention):
    """Scaled dot-product attention of queries and keys that are rotated by scaled frequencies.

    `method` is one of the methods above. `factor` is how much longer than in training sequences are, at least 1.
    `original_length` is the length in training, in tokens. `base` determines the lowest frequency. `short_divisors` and
    `long_divisors` are those of longrope, head_width / 2 numbers each, for lengths up to and above the original one.
    The length that dynamic and longrope see is the number of keys, which in decoding is that of the cache. Raises
    ConfigError if `head_width` is odd, for a factor below 1, and for divisors of another number.
    """

    def __init__(
        self,
        *,
        factor: PositiveFloat,
        original_length: Positive,
        method: Literal["linear", "ntk", "dynamic", "yarn", "longrope", "llama3"] = "yarn",
        base: PositiveFloat = 10000.0,
        short_divisors: tuple[float, ...] = (),
        long_divisors: tuple[float, ...] = (),
        **inherited: Any,
    ):
        super().__init__(**inherited)
        expect_even(self.head_width, "rotary attention")
        if factor < 1:
            raise ConfigError(f"factor: expected at least 1, got {factor}")
        half, divisors = self.head_width // 2, (short_divisors, long_divisors)
        for name, given in zip(("short_divisors", "long_divisors"), divisors, strict=True):
            if len(given) != (half if method == "longrope" else 0):
                what = f"{half} numbers, head_width / 2" if method == "longrope" else f"none with method {method}"
                raise ConfigError(f"{name}: expected {what}, got {len(given)}")
        self.factor, self.original_length, self.method, self.base = factor, original_length, method, base
        self.divisors = divisors

    def frequencies(self, length: int) -> tuple[np.ndarray, float]:
        """(the frequencies of the pairs, the factor of queries and keys) for a number of keys."""
        width, factor, original, base = self.head_width, self.factor, self.original_length, self.base
        if self.method == "linear":
            return kernels.interpolated_frequencies(width, factor=factor, base=base), 1.0
        if self.method == "ntk":
            return kernels.ntk_frequencies(width, factor=factor, base=base), 1.0
        if self.method == "longrope":
            given = self.divisors[length > original]
            return kernels.longrope_frequencies(width, given, base=base), kernels.longrope_magnitude(factor, original)
        if self.method == "dynamic":
            dynamic = kernels.dynamic_ntk_frequencies
            return dynamic(width, factor=factor, length=length, original_length=original, base=base), 1.0
        if self.method == "llama3":
            return kernels.llama3_frequencies(width, factor=factor, original_length=original, base=base), 1.0
        frequency = kernels.yarn_frequencies(width, factor=factor, original_length=original, base=base)
        return frequency, kernels.yarn_magnitude(factor)

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Rotates queries and keys. The first query is at position `where.offset`."""
        query, key, value = super().prepare(query, key, value, where)
        frequency, magnitude = self.frequencies(key.shape[1] if where.length is None else where.length)

        def turn(x: Array, first: Any) -> Array:
            at = first + jnp.arange(x.shape[1], dtype=jnp.int32)
            return kernels.rotary(x, at, frequency=frequency, magnitude=magnitude)

        return turn(query, where.offset), turn(key, 0), value
