"""Position codes against SciPy's distances, the wavelengths of the formula, and NumPy's rotations."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from attention_research.experiments.lectures.positions import codes

T, D = 97, 12


@pytest.mark.parametrize("scheme", codes.SCHEMES)
def test_the_smallest_distance_is_scipys(scheme, monkeypatch):
    monkeypatch.setattr(codes, "_ROWS", 10)
    table = codes.SCHEMES[scheme](T, D)
    np.testing.assert_allclose(codes.smallest_distance(table), pdist(table).min(), rtol=1e-9)


def test_the_distance_of_sinusoids_depends_on_the_offset_only():
    assert codes.inconsistency(codes.sinusoidal, (50, T), D, (1, 7)) < 1e-5
    assert codes.inconsistency(codes.index, (50, T), D, (1, 7)) == 0
    assert codes.inconsistency(codes.fraction, (50, T), D, (1, 7)) > 0.4
    assert codes.inconsistency(codes.learned, (50, T), D, (1, 7)) > 0.4
    np.testing.assert_allclose(codes.offset_distances(codes.index(T, D), [3])[0], 3 * np.sqrt(D))


def test_wavelengths_are_the_formulas():
    found = codes.wavelengths(codes.sinusoidal(T, D))
    np.testing.assert_allclose(found, 2 * np.pi * 10000 ** (np.arange(0, D, 2) / D), rtol=1e-4)


@pytest.mark.parametrize("offset", [1, 13])
def test_a_shift_is_one_rotation(offset):
    turn, table = codes.rotation(D, offset), codes.sinusoidal(T, D)
    np.testing.assert_allclose(turn @ turn.T, np.eye(D), atol=1e-12)
    np.testing.assert_allclose(table[:-offset] @ turn.T, table[offset:], atol=1e-5)


def test_products_of_sinusoids_are_a_band():
    means, variation = codes.along_diagonals(codes.sinusoidal(T, D) @ codes.sinusoidal(T, D).T)
    want = np.cos(np.outer(np.arange(T), 10000 ** (-np.arange(0, D, 2) / D))).sum(axis=1)
    np.testing.assert_allclose(means, want, atol=1e-4)
    assert variation < 1e-4


def test_bits_are_those_of_the_number():
    table = codes.binary(T, 7)
    np.testing.assert_array_equal(table @ 2 ** np.arange(7), np.arange(T))
    assert codes.sign_changes(table) == [(T - 1) // 2**bit for bit in range(7)]
    assert codes.smallest_distance(codes.binary(T, 3)) == 0  # three bits tell eight steps apart


def test_every_scheme_is_measured():
    sizes = {"code_width": D, "code_length": T, "lengths": (20, 50), "offsets": (1, 2), "seed": 1}
    found = {scheme: codes.measure_codes(scheme=scheme, **sizes) for scheme in codes.SCHEMES}
    assert found["index"]["largest"] == 49 and found["sinusoidal"]["largest"] <= 1
    assert [scheme for scheme, one in found.items() if not one["repeatable"]] == ["learned"]
