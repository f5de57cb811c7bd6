"""Rotary frequencies for sequences longer than in training, Peng et al. 2023 (arXiv 2309.00071), section 3:
theta'_i = g(theta_i) with theta_i = base^(-2i/H) and a scaling factor s.

    interpolated    theta_i / s                                             Chen et al. 2023 (arXiv 2306.15595)
    ntk             the base times s^(H / (H - 2)): the first frequency stays, the last one is divided by s
    dynamic_ntk     the same with s n / L - (s - 1) in place of s, for the length n > L
    yarn            interpolated at long wavelengths, unchanged at short ones, a ramp in between
    longrope        theta_i / lambda_i for a given vector lambda           Ding et al. 2024 (arXiv 2402.13753)
    llama3          as yarn, with a ramp over wavelengths                  Llama Team 2024 (arXiv 2407.21783)

L is the length of training. The functions return float64 arrays for `rotary(frequency=...)`. YaRN and LongRoPE also
multiply queries and keys by a factor (`yarn_magnitude`, `longrope_magnitude`), which is `rotary(magnitude=...)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float, Int

from attention_research.kernels.positions.angles import frequencies
from attention_research.kernels.positions.rotary import rotary


def _check(factor: float | int, **lengths: int) -> None:
    if not factor >= 1:
        raise ValueError(f"factor: expected at least 1, got {factor}")
    for name, length in lengths.items():
        if length < 1:
            raise ValueError(f"{name}: expected at least 1, got {length}")


def interpolated_frequencies(width: int, *, factor: float | int, base: float = 10000.0) -> np.ndarray:
    """All frequencies divided by the factor, as if positions were: position interpolation.

    >>> interpolated_frequencies(4, factor=4.0).tolist()
    [0.25, 0.0025]
    """
    _check(factor)
    return frequencies(width, base) / factor


def ntk_frequencies(width: int, *, factor: float | int, base: float = 10000.0) -> np.ndarray:
    """The frequencies of a larger base, "NTK-aware": the lower the frequency, the more it is interpolated.

    >>> ntk_frequencies(8, factor=4.0).round(6).tolist()
    [1.0, 0.062996, 0.003969, 0.00025]
    """
    _check(factor)
    return frequencies(width, base * factor ** (width / (width - 2)) if width > 2 else base)


def dynamic_ntk_frequencies(
    width: int, *, factor: float | int, length: int, original_length: int, base: float = 10000.0
) -> np.ndarray:
    """NTK-aware frequencies that are unchanged up to the original length and then follow the present length.

    >>> dynamic_ntk_frequencies(8, factor=4.0, length=32, original_length=32).round(6).tolist()
    [1.0, 0.1, 0.01, 0.001]
    """
    _check(factor, original_length=original_length)
    present = max(length, original_length)
    grown = factor * present / original_length - (factor - 1)
    return ntk_frequencies(width, factor=max(1.0, grown), base=base)  # rounding may give a little less than 1


def yarn_frequencies(
    width: int,
    *,
    factor: float | int,
    original_length: int,
    base: float = 10000.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> np.ndarray:
    """YaRN, "NTK-by-parts": pairs that turn more than `beta_fast` times in the original length keep their frequency.

    Those that turn less than `beta_slow` times are interpolated. In between, the share of interpolation is linear in
    the number of the pair, between bounds that are rounded outwards, as in the released code. If the original length is
    so short that all pairs turn less than `beta_slow` times, all are interpolated. The released code then keeps the
    first one or all.

    >>> yarn_frequencies(8, factor=4.0, original_length=32).tolist()
    [1.0, 0.025, 0.0025, 0.00025]
    """
    _check(factor, original_length=original_length)
    pair = lambda turns: width * math.log(original_length / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(math.floor(pair(beta_fast)), 0), min(math.ceil(pair(beta_slow)), width - 1)
    pairs = np.arange(width // 2)
    ramp = np.clip((pairs - low) / (high - low), 0, 1) if high > low else pairs > pair(beta_slow)
    plain = frequencies(width, base)
    return plain * (1 - ramp) + plain / factor * ramp


def yarn_magnitude(factor: float | int) -> float:
    """0.1 log(factor) + 1: the factor of queries and of keys.

    >>> round(yarn_magnitude(4.0), 6)
    1.138629
    """
    _check(factor)
    return 0.1 * math.log(factor) + 1


def yarn_rotary(
    x: Float[Array, "B T N H"],
    positions: Int[Array, "T"] | Int[Array, "B T"],
    *,
    factor: float | int,
    original_length: int,
    base: float = 10000.0,
) -> Float[Array, "B T N H"]:
    """`rotary` with the frequencies and the magnitude of YaRN, for queries and for keys.

    >>> import jax.numpy as jnp
    >>> x = yarn_rotary(jnp.array([[[[1.0, 0.0]]]]), jnp.array([0]), factor=4.0, original_length=32)[0, 0, 0]
    >>> [round(float(v), 4) for v in x]
    [1.1386, 0.0]
    """
    frequency = yarn_frequencies(x.shape[-1], factor=factor, original_length=original_length, base=base)
    return rotary(x, positions, frequency=frequency, magnitude=yarn_magnitude(factor))


def longrope_frequencies(width: int, factors: Sequence[float | int], *, base: float = 10000.0) -> np.ndarray:
    """The frequencies divided by a vector of width / 2 factors, which the paper finds by a search.

    >>> longrope_frequencies(4, [1.0, 4.0]).tolist()
    [1.0, 0.0025]
    """
    if len(factors) != width // 2:
        raise ValueError(f"factors: expected {width // 2} numbers, half of the width, got {len(factors)}")
    return frequencies(width, base) / np.asarray(factors, np.float64)


def longrope_magnitude(factor: float | int, original_length: int) -> float:
    """sqrt(1 + log(factor) / log(original_length)): the factor of queries and of keys. The length is at least 2.

    >>> round(longrope_magnitude(32.0, 32), 4)
    1.4142
    """
    _check(factor)
    if original_length < 2:
        raise ValueError(f"original_length: expected at least 2, got {original_length}")
    return math.sqrt(1 + math.log(factor) / math.log(original_length))


def llama3_frequencies(
    width: int,
    *,
    factor: float | int,
    original_length: int,
    base: float = 10000.0,
    low_frequency_factor: float = 1.0,
    high_frequency_factor: float = 4.0,
) -> np.ndarray:
    """Llama 3.1: wavelengths above L / low are divided by the factor, those below L / high are kept.

    In between, the share of the kept frequency is linear in L / wavelength.

    >>> llama3_frequencies(4, factor=8.0, original_length=32).tolist()
    [1.0, 0.00125]
    """
    _check(factor, original_length=original_length)
    if not high_frequency_factor > low_frequency_factor > 0:
        raise ValueError(
            f"high_frequency_factor: expected more than low_frequency_factor, {low_frequency_factor}, which is above 0,"
            f" got {high_frequency_factor}"
        )
    plain = frequencies(width, base)
    turns = original_length * plain / (2 * math.pi)
    kept = np.clip((turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor), 0, 1)
    return plain * kept + plain / factor * (1 - kept)
