"""What of `benchmarks/accelerator.py` needs no GPU: its counts, its calls, its table, and what it says without one."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest

from attention_research.accounting.flops import count_flops
from attention_research.kernels import causal_mask, window_mask
from benchmarks import accelerator


@pytest.fixture(autouse=True)
def standard_promotion():
    """As the benchmark runs: jax.nn mixes bfloat16 and float32."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def test_without_a_gpu_it_ends_with_one_line(root):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accelerator", "--json"], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "error: benchmarks.accelerator needs a GPU; JAX's default backend here is cpu\n"


@pytest.mark.parametrize("case", accelerator.CASES)
def test_operations_are_counted_by_visible_pairs(case, monkeypatch):
    monkeypatch.setattr(accelerator, "WINDOW", (4, 0))
    for length in (3, 13):
        seen = {"causal": causal_mask(length, length), "window": window_mask(length, length, (4, 0))}
        pairs = int(np.sum(seen[case])) if case in seen else length**2
        assert accelerator.visible_pairs(case, length) == pairs
        assert accelerator.operations(case, "forward", (2, length, 3, 5)) == 2 * 2 * 5 * 2 * 3 * pairs


def test_operations_of_a_plain_pass_are_those_of_the_program():
    """The dense gradient keeps the probabilities: six products; a tiled one computes the scores again."""
    shape = (2, 13, 3, 5)
    arrays = [jax.ShapeDtypeStruct(shape, np.float32)] * 3
    attend = lambda *arrays: jax.nn.dot_product_attention(*arrays)
    gradient = jax.grad(lambda *arrays: (attend(*arrays) ** 2).sum(), (0, 1, 2))
    assert count_flops(attend, *arrays).matmul == accelerator.operations("plain", "forward", shape)
    dense = count_flops(gradient, *arrays).matmul
    assert dense * 7 == accelerator.operations("plain", "forward+backward", shape) * 6


def test_calls_run_and_cells_say_why_they_are_blank(monkeypatch):
    monkeypatch.setattr(accelerator, "WINDOW", (4, 0))
    monkeypatch.setitem(accelerator.CASES, "window", {"is_causal": True, "local_window_size": (4, 0)})
    for case, gradients in (("window", 3), ("bias", 4)):
        calls = accelerator.jax_calls("xla", case, (1, 13, 2, 8))
        assert calls["forward"]().shape == (1, 13, 2, 8) and len(calls["forward+backward"]()) == gradients
    monkeypatch.setattr(accelerator, "FORMS", ("xla", "cudnn", "torch"))
    monkeypatch.setattr(accelerator, "LONG_ENOUGH", 1e-4)
    found = accelerator.cells("plain", (1, 13, 2, 8), 2, best=0.5)
    assert [(cell["form"], cell["pass"]) for cell in found[:3]] == [
        ("xla", "forward"), ("cudnn", "forward"), ("torch", "forward")
    ]  # fmt: skip
    assert all(cell["tflops"] >= 0 and cell["low_ms"] <= cell["median_ms"] for cell in found if cell["form"] == "xla")
    assert "cuDNN needs a GPU" in found[1]["why_not"] and "PyTorch" in found[2]["why_not"]


def test_the_table_has_rates_and_reasons():
    times = {"median_ms": 2.0, "low_ms": 1.0, "high_ms": 3.0, "samples": 4}
    shape = accelerator.shape_of(2048, 64)
    assert shape == (8, 2048, 32, 64)
    cell = accelerator.judged("plain", "forward", shape, times, best=500.0)
    assert cell["tflops"] == pytest.approx(4 * 64 * 8 * 32 * 2048**2 / 2e-3 / 1e12, abs=0.05)
    assert cell["share"] == pytest.approx(cell["tflops"] / 500, abs=1e-3)
    place = {"length": 2048, "width": 64, "case": "plain", "pass": "forward"}
    cells = [{**place, "form": "pallas", **cell}]
    cells += [{**place, "form": form, "why_not": "no memory"} for form in accelerator.FORMS[1:]]
    text = accelerator.table({"card": "a card", "matmul_tflops": 500.0, "cells": cells})
    assert "| 64 | 2048 | plain | forward | 137 (0.28) |  |  |  |" in text.splitlines()
    assert "torch, plain, H = 64, T = 2048: no memory" in text.splitlines()
