"""Times block sizes of the Pallas attention kernels on one GPU. `pallas.default_blocks` follows from the result.

    python -m benchmarks.blocks [--json] [--widths=64,128] [--cases=causal,bias] [--length=8192] [--rounds=5]

The shapes are those of `benchmarks.accelerator`. The forward pass is timed for each (query, key, warps, stages), and
the forward and backward pass for each (own, step, backward_warps, backward_stages), with the best blocks of the forward
pass. Candidates are compiled in parallel and timed in turn. A candidate that does not compile, for example because its
tiles do not fit into shared memory, is listed with its reason. Without a GPU, the benchmark prints one line and exits
with status 1.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._interleaved import log, made, present, versions
from .accelerator import CASES, MODEL_WIDTH, PASSES, TOKENS, operations, shape_of, timed, wait

#: Rows of a program, rows that it reads at a time, warps, stages.
CANDIDATES = tuple(itertools.product((64, 128), (32, 64, 128), (4, 8), (2, 3)))
DTYPE = "bfloat16"


def passes(case: str, shape: tuple[int, int, int, int], blocks: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Pass -> (a function with these blocks, its arguments)."""
    import jax
    import jax.numpy as jnp

    from attention_research.kernels.attention import pallas
    from attention_research.kernels.attention.arguments import prepare

    keys = jax.random.split(jax.random.key(0), 5)
    query, key, value, weight = (jax.random.normal(one, shape, DTYPE) for one in keys[:4])
    bias = jax.random.normal(keys[4], (1, 1, shape[1], shape[1]), DTYPE) if case == "bias" else None
    window = CASES[case].get("local_window_size")

    def forward(query, key, value, bias, weight):
        causal = CASES[case].get("is_causal", False)
        arrays, options = prepare(query, key, value, bias, None, None, causal, None, None, window)
        return pallas.attend(arrays, options, blocks)

    def loss(*given):
        return jnp.vdot(forward(*given).astype(jnp.float32), given[-1].astype(jnp.float32))

    values = (query, key, value, bias, weight)
    gradient = jax.grad(loss, (0, 1, 2) if bias is None else (0, 1, 2, 3))
    return {name: (jax.jit(f), values) for name, f in zip(PASSES, (forward, gradient), strict=True)}


def ready(case: str, shape: tuple[int, int, int, int], name: str, blocks: Any) -> Callable[[], Any] | str:
    """The compiled call of a pass, or the reason why there is none."""
    function, values = passes(case, shape, blocks)[name]
    try:
        program = function.lower(*values).compile()
        wait(program(*values))
    except Exception as error:  # the tiles do not fit, or Triton cannot compile them
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return lambda: program(*values)


def rated(case: str, shape: tuple[int, int, int, int], name: str, candidates: list[Any], rounds: int) -> list[dict]:
    """For each candidate its blocks and TFLOP/s, or the reason why it has none; the fastest first."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda blocks: ready(case, shape, name, blocks), candidates))
    calls = {str(n): call for n, call in enumerate(found) if not isinstance(call, str)}
    times = timed(calls, rounds)
    rows = []
    for n, (blocks, call) in enumerate(zip(candidates, found, strict=True)):
        row = {"case": case, "width": shape[3], "length": shape[1], "pass": name, "blocks": blocks._asdict()}
        if isinstance(call, str):
            row["why_not"] = call
        else:
            milliseconds = times[str(n)]["median_ms"]
            row |= {"median_ms": milliseconds, "tflops": round(operations(case, name, shape) / milliseconds / 1e9, 1)}
        rows.append(row)
    return sorted(rows, key=lambda row: -row.get("tflops", 0))


def measure(widths: tuple[int, ...], cases: tuple[str, ...], length: int, rounds: int) -> dict[str, Any]:
    """Measures everything and returns the document. Raises RuntimeError without a GPU."""
    import jax

    from attention_research.kernels.attention.pallas_kernels import Blocks

    if jax.default_backend() != "gpu":
        raise RuntimeError(f"benchmarks.blocks needs a GPU; JAX's default backend here is {jax.default_backend()}")
    shape = {"tokens": TOKENS, "width": MODEL_WIDTH, "length": length, "dtype": DTYPE}
    document: dict[str, Any] = {"benchmark": "blocks", "shape": shape, **made(), "card": jax.devices()[0].device_kind}
    document |= {"versions": versions("jax", "jaxlib"), "rows": []}
    for width, case in itertools.product(widths, cases):
        log(f"H = {width}, T = S = {length}: {case}")
        shape = shape_of(length, width)
        backward = (64, 32)
        tried = [Blocks(query, key, *backward, warps, stages) for query, key, warps, stages in CANDIDATES]
        forward = rated(case, shape, "forward", tried, rounds)
        best = Blocks(**forward[0]["blocks"])
        tried = [best._replace(own=own, step=step, backward_warps=warps, backward_stages=stages)
                 for own, step, warps, stages in CANDIDATES]  # fmt: skip
        document["rows"] += forward + rated(case, shape, "forward+backward", tried, rounds)
    return document


def show(document: dict[str, Any]) -> None:
    """Prints one line for each candidate."""
    for row in document["rows"]:
        place = f"H = {row['width']}, {row['case']}, {row['pass']}: " + " ".join(map(str, row["blocks"].values()))
        print(place, "->", row.get("why_not") or f"{row['tflops']} TFLOP/s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--widths", default="64,128", help="comma-separated head widths")
    parser.add_argument("--cases", default="causal,bias", help=f"comma-separated, of {', '.join(CASES)}")
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    widths, cases = tuple(map(int, given.widths.split(","))), tuple(given.cases.split(","))
    try:
        found = measure(widths, cases, given.length, given.rounds)
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    present(found, given.json, show)
