"""Measures attention on one GPU: TFLOP/s of our Pallas kernels, cuDNN, XLA (jax.nn) and PyTorch's FlashAttention.

    python -m benchmarks.accelerator [--json] [--lengths=2048,8192,32768] [--widths=64,128] [--rounds=10]

Inputs are bfloat16, with 16,384 tokens per batch (at least one sequence) and model width 2,048. A cell is the forward
pass, or the forward pass with the gradients of query, key and value (and of the bias, if there is one). Operations are
counted only for the visible pairs of query and key: two products in the forward pass and seven in the forward and
backward pass, with 2 H operations per pair in each. This is the count of the FlashAttention papers, except that causal
pairs are counted exactly. A form that computes masked pairs is not credited for them. `share` is the rate divided by
the rate of a bfloat16 product of 8,192 x 8,192 matrices on the same GPU in the same run. Times are medians over rounds
in which all forms run in turn. Each form runs long enough in a round to hide the dispatch. If a form cannot compute a
cell, the reason is printed. Without a GPU, the benchmark prints one line and exits with status 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._interleaved import has, log, made, present, versions

TOKENS, MODEL_WIDTH = 16_384, 2_048
FORMS = ("pallas", "cudnn", "xla", "torch")
WINDOW = (1023, 0)
#: Case -> settings of the call. The case "bias" also has a bias [1 1 T T].
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "window": {"is_causal": True, "local_window_size": WINDOW},
    "bias": {},
}
PASSES = ("forward", "forward+backward")
#: The number of products T x T x H in a pass.
PRODUCTS = {"forward": 2, "forward+backward": 7}
MATMUL = 8_192
#: The number of seconds that a form runs in a round.
LONG_ENOUGH = 0.02


def visible_pairs(case: str, length: int) -> int:
    """The number of visible (query, key) pairs of a head."""
    if case == "causal":
        return length * (length + 1) // 2
    if case == "window":
        seen = min(WINDOW[0] + 1, length)
        return seen * (seen + 1) // 2 + (length - seen) * seen
    return length * length


def operations(case: str, name: str, shape: tuple[int, int, int, int]) -> int:
    """The floating-point operations of a pass over query, key and value of shape [B T N H]."""
    B, T, N, H = shape
    return PRODUCTS[name] * 2 * H * B * N * visible_pairs(case, T)


def shape_of(length: int, width: int) -> tuple[int, int, int, int]:
    """The shape [B T N H] of a cell."""
    return max(1, TOKENS // length), length, MODEL_WIDTH // width, width


def jax_calls(form: str, case: str, shape: tuple[int, int, int, int]) -> dict[str, Callable[[], Any]]:
    """Pass -> a compiled call, which does not wait for its result. Raises ValueError if the form does not support the
    case."""
    import jax
    import jax.numpy as jnp

    from attention_research.kernels import dot_product_attention

    keys = jax.random.split(jax.random.key(0), 5)
    query, key, value, weight = (jax.random.normal(one, shape, jnp.bfloat16) for one in keys[:4])
    length = shape[1]
    bias = jax.random.normal(keys[4], (1, 1, length, length), jnp.bfloat16) if case == "bias" else None

    def forward(query, key, value, bias, weight):
        return dot_product_attention(query, key, value, bias, implementation=form, **CASES[case])

    def loss(query, key, value, bias, weight):
        output = forward(query, key, value, bias, weight)
        return jnp.vdot(output.astype(jnp.float32), weight.astype(jnp.float32))

    values = (query, key, value, bias, weight)  # XLA would fold a constant weight for seconds
    gradient = jax.grad(loss, (0, 1, 2) if bias is None else (0, 1, 2, 3))
    compiled = [jax.jit(function).lower(*values).compile() for function in (forward, gradient)]
    return {name: lambda call=call: call(*values) for name, call in zip(PASSES, compiled, strict=True)}


def torch_calls(case: str, shape: tuple[int, int, int, int]) -> dict[str, Callable[[], Any]]:
    """The calls of PyTorch's FlashAttention, which supports neither a bias nor a window."""
    if not has("torch"):
        raise ValueError("PyTorch is not installed")
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if not torch.cuda.is_available():
        raise ValueError("this PyTorch has no CUDA")
    if case in ("bias", "window"):
        raise ValueError(f"PyTorch's FlashAttention has no {case}")
    B, T, N, H = shape
    query, key, value, weight = torch.randn((4, B, N, T, H), device="cuda", dtype=torch.bfloat16).unbind()

    def run(*heads):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(*heads, is_causal=case == "causal")

    def forward():
        with torch.no_grad():
            return run(query, key, value)

    def backward():
        leaves = [x.detach().requires_grad_() for x in (query, key, value)]
        return torch.autograd.grad(run(*leaves), leaves, weight)

    return dict(zip(PASSES, (forward, backward), strict=True))


def calls_of(form: str, case: str, shape: tuple[int, int, int, int]) -> dict[str, Callable[[], Any]]:
    """The calls of a form. Raises ValueError if it does not support the case."""
    return torch_calls(case, shape) if form == "torch" else jax_calls(form, case, shape)


def wait(result: Any) -> None:
    """Waits until the device has computed the result."""
    import jax

    if any(type(leaf).__module__.startswith("torch") for leaf in jax.tree.leaves(result)):
        import torch

        torch.cuda.synchronize()
    else:
        jax.block_until_ready(result)


def timed(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Form -> {median_ms, low_ms, high_ms, samples} of one call. The forms run in turn in each round."""

    def milliseconds(call: Callable[[], Any], repeats: int) -> float:
        begin = time.perf_counter()
        for _ in range(repeats):
            result = call()
        wait(result)
        return 1e3 * (time.perf_counter() - begin) / repeats

    for call in calls.values():
        wait(call())
    repeats = {form: max(1, round(1e3 * LONG_ENOUGH / milliseconds(call, 1))) for form, call in calls.items()}
    samples: dict[str, list[float]] = {form: [] for form in calls}
    for _ in range(rounds):
        for form, call in calls.items():
            samples[form].append(milliseconds(call, repeats[form]))
    return {
        form: {"median_ms": statistics.median(one), "low_ms": min(one), "high_ms": max(one), "samples": len(one)}
        for form, one in samples.items()
    }


def matmul_rate(rounds: int) -> float:
    """The TFLOP/s of a square bfloat16 matrix product."""
    import jax
    import jax.numpy as jnp

    a, b = (jax.random.normal(key, (MATMUL, MATMUL), jnp.bfloat16) for key in jax.random.split(jax.random.key(1)))
    product = jax.jit(jnp.matmul)
    found = timed({"matmul": lambda: product(a, b)}, rounds)["matmul"]["median_ms"]
    return 2 * MATMUL**3 / found / 1e9


def judged(case: str, name: str, shape: tuple[int, int, int, int], times: dict[str, float], best: float) -> dict:
    """A cell: the times, TFLOP/s, and the rate relative to the matrix product."""
    rate = operations(case, name, shape) / times["median_ms"] / 1e9
    return {**times, "tflops": round(rate, 1), "share": round(rate / best, 3)}


def measure(lengths: tuple[int, ...], widths: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """Measures everything and returns the document. Raises RuntimeError without a GPU."""
    import jax

    if jax.default_backend() != "gpu":
        raise RuntimeError(f"benchmarks.accelerator needs a GPU; JAX's default backend here is {jax.default_backend()}")
    best = matmul_rate(rounds)
    document = {
        "benchmark": "accelerator",
        **made(),
        "shape": {"tokens": TOKENS, "width": MODEL_WIDTH, "dtype": "bfloat16", "window": WINDOW[0] + 1},
        "versions": versions("jax", "jaxlib", "torch", "jax-cuda12-plugin", "jax-cuda13-plugin"),
        "card": jax.devices()[0].device_kind,
        "matmul_tflops": round(best, 1),
        "cells": [],
    }
    for width in widths:
        for length in lengths:
            for case in CASES:
                log(f"H = {width}, T = S = {length}: {case}")
                document["cells"] += cells(case, shape_of(length, width), rounds, best)
    return document


def cells(case: str, shape: tuple[int, int, int, int], rounds: int, best: float) -> list[dict[str, Any]]:
    """The cells of a case, one for each form and pass, with numbers or the reason why there are none."""
    ready: dict[str, dict[str, Callable[[], Any]]] = {}
    why: dict[str, str] = {}
    with ThreadPoolExecutor(len(FORMS)) as pool:  # programs are compiled in parallel
        making = {form: pool.submit(calls_of, form, case, shape) for form in FORMS}
    for form, made_calls in making.items():
        try:
            calls = made_calls.result()
            for call in calls.values():
                wait(call())
            ready[form] = calls
        except Exception as error:  # unsupported or out of memory: the other forms are still measured
            why[form] = f"{type(error).__name__}: {error}".splitlines()[0]
    place = {"length": shape[1], "width": shape[3], "case": case}
    found = []
    for name in PASSES:
        times = timed({form: calls[name] for form, calls in ready.items()}, rounds)
        for form in FORMS:
            result = {"why_not": why[form]} if form in why else judged(case, name, shape, times[form], best)
            found.append({**place, "form": form, "pass": name, **result})
    return found


def table(document: dict[str, Any]) -> str:
    """A table with one line for each shape, case and pass, and TFLOP/s (relative to the matrix product) for each form.

    The reasons for empty cells follow the table.
    """
    lines = [f"{document['card']}, product of {MATMUL} x {MATMUL}: {document['matmul_tflops']} TFLOP/s", ""]
    lines.append("| H | T | case | pass | " + " | ".join(FORMS) + " |")
    lines.append("| ---: | ---: | --- | --- |" + " ---: |" * len(FORMS))
    rows: dict[tuple, dict[str, str]] = {}
    blank: dict[str, None] = {}
    for cell in document["cells"]:
        row = rows.setdefault((cell["width"], cell["length"], cell["case"], cell["pass"]), {})
        row[cell["form"]] = f"{cell['tflops']:.0f} ({cell['share']:.2f})" if "tflops" in cell else ""
        if "why_not" in cell:
            blank[f"{cell['form']}, {cell['case']}, H = {cell['width']}, T = {cell['length']}: {cell['why_not']}"] = (
                None
            )
    for place, row in rows.items():
        lines.append("| " + " | ".join([*map(str, place), *(row[form] for form in FORMS)]) + " |")
    return "\n".join([*lines, *([""] if blank else []), *blank])


def main(json: bool, lengths: tuple[int, ...], widths: tuple[int, ...], rounds: int) -> int:
    """Measures and prints. Returns the exit status."""
    try:
        document = measure(lengths, widths, rounds)
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    present(document, json, lambda document: print(table(document)))
    return 0


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lengths", type=numbers, default=(2048, 8192, 32768), help="comma-separated T = S")
    parser.add_argument("--widths", type=numbers, default=(64, 128), help="comma-separated head widths")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    sys.exit(main(given.json, given.lengths, given.widths, given.rounds))
