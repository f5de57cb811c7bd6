"""`benchmarks/attention.py` gives one JSON document with every number that the targets need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_attention_benchmark_prints_one_document(root):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.attention", "--json", "--lengths=509", "--rounds=2"],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert document["malloc"]["time"]["MALLOC_TOP_PAD_"]
    result = document["lengths"]["509"]
    for name in ("forward", "forward+backward"):
        for form in ("blockwise", "reference", "jax.nn"):
            row = result["times"][name][form]
            assert 0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"]
    assert set(result["memory"]) == {"plain", "mask", "bias", "window"}
    for peaks in result["memory"].values():
        assert 0 < peaks["blockwise"] and 0 < peaks["reference"]
    assert {row["what"] for row in result["targets"]} >= {
        "forward: jax.nn / blockwise",
        "memory bias: blockwise / dense",
    }
    assert all(isinstance(row["met"], bool) for row in result["targets"])
