"""Schedules against the papers' formulas in float64."""

import math

import numpy as np
import pytest

from attention_research.training.schedules import Constant, Cosine, InverseSqrt, Noam


def rates(kind, learning_rate, *, width=512, steps=1000, upto=50, **settings):
    schedule = kind(**settings)(learning_rate, width=width, steps=steps)
    return np.array([float(schedule(count)) for count in range(upto)])


def test_noam_is_equation_3():
    steps = np.arange(1, 51, dtype=np.float64)
    want = 2.0 * 512**-0.5 * np.minimum(steps**-0.5, steps * 20**-1.5)
    np.testing.assert_allclose(rates(Noam, 2.0, warmup_steps=20), want, rtol=1e-6)
    assert np.argmax(want) + 1 == 20


def test_noam_peak_of_the_paper():
    """4,000 steps at width 512: the peak is (512 x 4000)^-0.5 = 0.000699."""
    assert float(Noam()(1.0, width=512, steps=100_000)(3999)) == pytest.approx((512 * 4000) ** -0.5, rel=1e-6)


def test_inverse_sqrt_is_flat_then_falls():
    got = rates(InverseSqrt, 0.01, warmup_steps=10)
    steps = np.arange(1, 51, dtype=np.float64)
    np.testing.assert_allclose(got, 0.01 * np.sqrt(10 / np.maximum(steps, 10)), rtol=1e-6)


def test_constant_warms_up_linearly():
    np.testing.assert_allclose(
        rates(Constant, 0.3, warmup_steps=4, upto=7), 0.3 * np.minimum(np.arange(7) / 4, 1), rtol=1e-6
    )


def test_cosine_ends_at_its_final_share():
    got = rates(Cosine, 0.5, warmup_steps=10, final=0.1, steps=50, upto=51)
    want = [0.5 * t / 10 if t < 10 else 0.05 + 0.45 * 0.5 * (1 + math.cos(math.pi * (t - 10) / 40)) for t in range(51)]
    np.testing.assert_allclose(got, want, atol=1e-6)
