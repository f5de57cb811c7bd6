"""Attention on a CPU: time and peak memory of `blockwise`, `reference`, jax.nn and PyTorch, interleaved in one run.

    python -m benchmarks.attention [--json] [--lengths=4096] [--rounds=5]

At T = 4096 about three minutes on 2 cores. Times are medians over rounds in which every form runs once
(`_interleaved` says how; the malloc's settings are printed). Peak memory is a fresh process per form: its highest
resident size less that after inputs and compilation, forward+backward, for a plain call and with a mask [1 1 T S], a
bias [1 1 T S] (with its gradient) and a causal window of 256.
"""

from __future__ import annotations

import argparse
import json as json_module
import os
import sys
from collections.abc import Callable
from typing import Any

from benchmarks._interleaved import (
    KEEP_PAGES,
    RETURN_PAGES,
    has,
    interleaved,
    log,
    made,
    peak_of,
    present,
    print_targets,
    print_times,
    target,
    versions,
    worker,
)

MODULE = "benchmarks.attention"
BATCH, HEADS, WIDTH = 1, 8, 64
FORMS = ("blockwise", "reference", "jax.nn", "torch")
CASES = ("plain", "mask", "bias", "window")
WINDOW = (255, 0)


def inputs(length: int, case: str) -> dict[str, Any]:
    """Float32 arrays of the case: query, key, value [B T N H], the output's weight, and a mask or a bias."""
    import numpy as np

    random = np.random.default_rng(0)
    names = ("query", "key", "value", "weight")
    arrays = {name: random.standard_normal((BATCH, length, HEADS, WIDTH), np.float32) for name in names}
    arrays["mask"] = random.random((1, 1, length, length), np.float32) < 0.8 if case == "mask" else None
    arrays["bias"] = random.standard_normal((1, 1, length, length), np.float32) if case == "bias" else None
    return arrays


def jax_calls(form: str, case: str, arrays: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """(forward, forward and backward), compiled, waiting for the result."""
    import jax
    import jax.numpy as jnp

    from attention_research.kernels import dot_product_attention

    window = {"is_causal": True, "local_window_size": WINDOW} if case == "window" else {}
    at = {name: None if array is None else jnp.asarray(array) for name, array in arrays.items()}

    def forward(query, key, value, bias):
        if form == "jax.nn":
            return jax.nn.dot_product_attention(query, key, value, bias, at["mask"], **window)
        return dot_product_attention(query, key, value, bias, at["mask"], implementation=form, **window)

    def loss(query, key, value, bias):
        return jnp.vdot(forward(query, key, value, bias), at["weight"])

    numbers = (0, 1, 2) if at["bias"] is None else (0, 1, 2, 3)
    values = (at["query"], at["key"], at["value"], at["bias"])
    calls = [jax.jit(forward).lower(*values).compile(), jax.jit(jax.grad(loss, numbers)).lower(*values).compile()]
    return tuple(lambda call=call: jax.block_until_ready(call(*values)) for call in calls)


def torch_calls(case: str, arrays: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """(forward, forward and backward) of scaled_dot_product_attention; a window is a mask to it."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_flush_denormal(True)
    at = {name: None if array is None else torch.from_numpy(array) for name, array in arrays.items()}
    heads = [at[name].transpose(1, 2) for name in ("query", "key", "value")]
    weight, hidden = at["weight"].transpose(1, 2), at["mask"]
    if case == "window":
        row, column = torch.arange(heads[0].shape[2])[:, None], torch.arange(heads[0].shape[2])[None, :]
        hidden = (column <= row) & (column >= row - WINDOW[0])

    def backward():
        leaves = [x.detach().requires_grad_() for x in heads]
        extra = hidden if at["bias"] is None else at["bias"].detach().requires_grad_()
        (scaled_dot_product_attention(*leaves, attn_mask=extra) * weight).sum().backward()

    return lambda: scaled_dot_product_attention(
        *heads, attn_mask=hidden if at["bias"] is None else at["bias"]
    ), backward


def calls(form: str, case: str, length: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The two calls of a form."""
    arrays = inputs(length, case)
    return torch_calls(case, arrays) if form == "torch" else jax_calls(form, case, arrays)


def time_worker(length: int, rounds: int) -> dict[str, Any]:
    """{"forward" | "forward+backward": {form: {median_ms, low_ms, high_ms, samples}}}."""
    compiled = {form: calls(form, "plain", length) for form in FORMS if form != "torch" or has("torch")}
    return {
        name: interleaved({form: both[number] for form, both in compiled.items()}, rounds)
        for number, name in enumerate(("forward", "forward+backward"))
    }


def memory_worker(form: str, case: str, length: int) -> dict[str, Any]:
    """Peak resident bytes of one forward+backward above what inputs and compiled program hold."""
    return {"peak_bytes": peak_of(calls(form, case, length)[1])}


def _targets(times: dict[str, Any], memory: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    """What the kernel promises at T = 4096, with the measured ratio."""
    rows = []
    for name, slower, faster in (("forward", 4.0, 1.4), ("forward+backward", 3.0, 1.5)):
        median = {form: row["median_ms"] for form, row in times[name].items() if form in FORMS}
        rows.append(target(f"{name}: jax.nn / blockwise", median["jax.nn"] / median["blockwise"], at_least=slower))
        if "torch" in median:
            rows.append(target(f"{name}: blockwise / torch", median["blockwise"] / median["torch"], at_most=faster))
    for case, peaks in memory.items():
        ratio = peaks["blockwise"] / max(peaks["reference"], 1)
        rows.append(target(f"memory {case}: blockwise / dense", ratio, at_most=0.1))
    return rows


def measure(lengths: tuple[int, ...] = (4096,), rounds: int = 5, cases: tuple[str, ...] = CASES) -> dict[str, Any]:
    """The whole benchmark as one JSON document."""
    document: dict[str, Any] = {
        "benchmark": "attention",
        "shape": {"batch": BATCH, "heads": HEADS, "head_width": WIDTH, "dtype": "float32"},
        **made(),
        "versions": versions("jax", "jaxlib", "torch"),
        "malloc": {"time": KEEP_PAGES, "memory": RETURN_PAGES},
        "lengths": {},
    }
    for length in lengths:
        log(f"T = S = {length}: {rounds} interleaved rounds of {', '.join(FORMS if has('torch') else FORMS[:-1])}")
        times = worker(MODULE, KEEP_PAGES, "time", str(length), str(rounds))
        memory: dict[str, dict[str, int]] = {}
        for case in cases:
            forms = FORMS if case == "plain" and has("torch") else FORMS[:-1]
            log(f"T = S = {length}: peak memory, {case}")
            memory[case] = {
                form: worker(MODULE, RETURN_PAGES, "memory", form, case, str(length))["peak_bytes"] for form in forms
            }
        document["lengths"][str(length)] = {"times": times, "memory": memory, "targets": _targets(times, memory)}
    return document


def show(document: dict[str, Any]) -> None:
    """The tables."""
    for use, settings in document["malloc"].items():
        print(f"malloc ({use}): " + " ".join(f"{name}={value}" for name, value in settings.items()))
    for length, result in document["lengths"].items():
        print(f"\nT = S = {length}")
        for name, rows in result["times"].items():
            print_times(name, rows)
        for case, peaks in result["memory"].items():
            print(f"  memory {case:10s} " + "   ".join(f"{form} {size / 1e6:.0f} MB" for form, size in peaks.items()))
        print_targets(result["targets"])


def main(json: bool = False, lengths: tuple[int, ...] = (4096,), rounds: int = 5) -> None:
    """Measures and prints: tables, or with `json` one JSON document."""
    present(measure(lengths, rounds), json, show)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        what, *rest = sys.argv[2:]
        result = time_worker(int(rest[0]), int(rest[1])) if what == "time" else memory_worker(*rest[:2], int(rest[2]))
        print(json_module.dumps(result))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--lengths", default="4096", help="comma-separated T = S")
        parser.add_argument("--rounds", type=int, default=5)
        given = parser.parse_args()
        main(given.json, tuple(int(length) for length in given.lengths.split(",")), given.rounds)
