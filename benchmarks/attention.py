"""Measures attention on a CPU: time and peak memory of `blockwise` and other implementations, interleaved in one run.

    python -m benchmarks.attention [--json] [--lengths=512,1024,2048,4096,8192,16384] [--rounds=5]
                                   [--cases=plain,bias] [--parts=times,layers,structures]

T = 4096 takes about eight minutes on 2 cores. Times are medians over rounds in which every form runs once (see
`_interleaved`; the settings of malloc are printed). The parts are a single attention, full and causal; a whole layer
with its projections; and `blockwise` with each structure that it computes inside its loop. Peak memory is measured in a
fresh process for each form and structure: the highest resident size in forward+backward minus the size after inputs and
compilation. Forms that store all scores stop at the lengths in LONGEST. PyTorch's flex_attention does not have a
backward pass on a CPU.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from ._interleaved import (
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
    serves,
    target,
    versions,
    worker,
)

MODULE = __spec__.name
BATCH, HEADS, WIDTH = 1, 8, 64
#: The structures include a causal window of 256, eight packed examples, padding for half of the keys, 33 relative
#: distances (Shaw et al. 2018, k = 16), a bias by distance (T5, ALiBi), and two key heads.
CASES = ("plain", "causal", "mask", "bias", "window", "segments", "lengths", "distance", "relative", "groups")
FORMS = ("blockwise", "reference", "jax.nn", "torch", "flex_attention")
PARTS = ("times", "layers", "structures")
LAYERS = ("blockwise layer", "nnx.MultiHeadAttention", "torch.nn.MultiheadAttention")
#: The longest T = S for a form that stores all scores: (forward, forward and backward).
LONGEST = {"reference": (4096, 4096), "jax.nn": (8192, 4096), "nnx.MultiHeadAttention": (4096, 4096)}
#: The measurements of each length.
NAMES = ("forward", "forward+backward", "forward, causal", "forward+backward, causal")


def inputs(length: int, case: str) -> dict[str, Any]:
    """The NumPy arrays of a case by the name of the kernel argument, and the "weight" of the output in the loss."""
    import numpy as np

    random = np.random.default_rng(0)
    heads = {"query": HEADS, "key": 2 if case == "groups" else HEADS, "value": 2 if case == "groups" else HEADS}
    normal = lambda *shape: random.standard_normal(shape, np.float32)
    arrays: dict[str, Any] = {name: normal(BATCH, length, n, WIDTH) for name, n in {**heads, "weight": HEADS}.items()}
    if case == "mask":
        arrays["mask"] = random.random((1, 1, length, length), np.float32) < 0.8
    if case == "bias":
        arrays["bias"] = normal(1, 1, length, length)
    if case == "distance":
        arrays["distance_bias"] = normal(HEADS, 2 * length - 1)
    if case == "segments":
        segments = (1 + 8 * np.arange(length) // length).astype(np.int32)[None]
        arrays |= {"query_segments": segments, "key_segments": segments}
    if case == "lengths":
        arrays["key_value_seq_lengths"] = np.array([length // 2], np.int32)
    if case == "relative":
        arrays |= {"key_table": normal(33, WIDTH), "value_table": normal(33, WIDTH)}
    return arrays


def settings(case: str) -> dict[str, Any]:
    """The static arguments of a case."""
    if case == "window":
        return {"is_causal": True, "local_window_size": (255, 0)}
    return {"is_causal": True} if case == "causal" else {}


def jax_calls(form: str, case: str, length: int) -> list[Callable[[], Any]]:
    """The compiled calls [forward, forward and backward], which wait for their result."""
    import jax
    import jax.numpy as jnp

    from attention_research.kernels import dot_product_attention, relative_attention

    arrays = {name: jnp.asarray(array) for name, array in inputs(length, case).items()}
    weight = arrays.pop("weight")
    floats = {name: arrays.pop(name) for name in list(arrays) if arrays[name].dtype == jnp.float32}
    attend = relative_attention if case == "relative" else dot_product_attention
    if form == "jax.nn":
        attend, chosen = jax.nn.dot_product_attention, {}
    else:
        chosen = {"implementation": form}

    def forward(floats):
        return attend(**floats, **arrays, **settings(case), **chosen)

    def loss(floats):
        return jnp.vdot(forward(floats), weight)

    return _compiled(forward, loss, floats)


def _compiled(forward: Callable, loss: Callable, values: Any) -> list[Callable[[], Any]]:
    import jax

    calls = [jax.jit(forward).lower(values).compile(), jax.jit(jax.grad(loss)).lower(values).compile()]
    return [lambda call=call: jax.block_until_ready(call(values)) for call in calls]


def torch_calls(form: str, case: str, length: int) -> list[Callable[[], Any]]:
    """The calls [forward, forward and backward] of scaled_dot_product_attention, or [forward] of compiled
    flex_attention."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    arrays = {name: torch.from_numpy(array) for name, array in inputs(length, case).items()}
    heads = [arrays[name].transpose(1, 2) for name in ("query", "key", "value")]
    weight, causal = arrays["weight"].transpose(1, 2), case == "causal"
    if form == "flex_attention":
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        flex, mask = torch.compile(flex_attention), None
        if causal:
            mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="cpu")
        return [lambda: flex(*heads, block_mask=mask)]

    def backward():
        leaves = [x.detach().requires_grad_() for x in heads]
        (scaled_dot_product_attention(*leaves, is_causal=causal) * weight).sum().backward()

    return [lambda: scaled_dot_product_attention(*heads, is_causal=causal), backward]


def layer_calls(form: str, length: int) -> list[Callable[[], Any]]:
    """The calls [forward, forward and backward] of self-attention [1 T 512] with its four projections.

    The backward pass includes the gradients of the parameters.
    """
    import numpy as np

    x = np.random.default_rng(0).standard_normal((BATCH, length, HEADS * WIDTH)).astype(np.float32)
    if form == "torch.nn.MultiheadAttention":
        import torch

        layer, given = torch.nn.MultiheadAttention(HEADS * WIDTH, HEADS, batch_first=True), torch.from_numpy(x)
        forward = lambda: layer(given, given, given, need_weights=False)[0]
        return [forward, lambda: forward().square().sum().backward()]
    import jax.numpy as jnp
    from flax import nnx

    if form == "nnx.MultiHeadAttention":
        layer = nnx.MultiHeadAttention(HEADS, HEADS * WIDTH, decode=False, rngs=nnx.Rngs(0))
        apply = lambda layer, x: layer(x)
    else:
        from attention_research.layers.attention.standard import StandardAttention

        layer = StandardAttention(
            width=HEADS * WIDTH, num_heads=HEADS, head_width=None, implementation="blockwise", rngs=nnx.Rngs(0)
        )
        apply = lambda layer, x: layer(x, x)[0]
    graph, state = nnx.split(layer)
    given = jnp.asarray(x)
    forward = lambda state: apply(nnx.merge(graph, state), given)
    return _compiled(forward, lambda state: jnp.sum(jnp.square(forward(state))), state)


def calls(form: str, case: str, length: int) -> list[Callable[[], Any]]:
    """The calls of a form, without those that would store too many scores."""
    if form in LAYERS:
        made = layer_calls(form, length)
    else:
        made = (torch_calls if form in ("torch", "flex_attention") else jax_calls)(form, case, length)
    return [call for call, longest in zip(made, LONGEST.get(form, (length,) * 2), strict=False) if length <= longest]


def time_worker(what: str, length: int, rounds: int) -> dict[str, Any]:
    """{name: {form: {median_ms, low_ms, high_ms, samples}}}. "refused" has the reasons why other libraries do not
    run."""
    if has("torch"):
        import torch

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        torch.set_flush_denormal(True)
    found: dict[str, Any] = {}
    if what == "structures":
        compiled = {case: calls("blockwise", case, length)[1] for case in CASES}
        return {"forward+backward": interleaved(compiled, rounds)}
    for case in ("plain",) if what == "layers" else ("plain", "causal"):
        compiled: dict[str, list[Callable[[], Any]]] = {}
        for form in LAYERS if what == "layers" else FORMS:
            if not has("torch") and form.startswith(("torch", "flex")):
                continue
            try:
                compiled[form] = calls(form, case, length)
                [call() for call in compiled[form]]
            except Exception as error:  # report that the library does not run here, and continue
                found.setdefault("refused", {})[form] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                compiled.pop(form, None)
        for number, name in enumerate(NAMES[:2]):
            chosen = {form: both[number] for form, both in compiled.items() if len(both) > number}
            found[name + (", causal" if case == "causal" else "")] = interleaved(chosen, rounds)
    return found


def memory_worker(form: str, case: str, length: int) -> dict[str, Any]:
    """The peak resident bytes of one forward+backward, minus those of the inputs and the compiled program."""
    return {"peak_bytes": peak_of(calls(form, case, length)[1])}


def _targets(times: dict[str, Any], memory: dict[str, dict[str, int]], length: int) -> list[dict[str, Any]]:
    """The targets of the kernel with the measured ratios."""
    rows = []
    medians = {name: {f: r["median_ms"] for f, r in times[name].items() if isinstance(r, dict)} for name in NAMES}
    for name in NAMES:
        median = medians[name]
        if "jax.nn" in median:
            slower = 5.0 if name.startswith("forward,") or name == "forward" else 4.0
            rows.append(target(f"{name}: jax.nn / blockwise", median["jax.nn"] / median["blockwise"], at_least=slower))
        if "torch" in median:
            most = 1.0 if length >= 1024 else 1.2
            rows.append(target(f"{name}: blockwise / torch", median["blockwise"] / median["torch"], at_most=most))
    for name in NAMES[:2]:
        ratio = medians[f"{name}, causal"]["blockwise"] / medians[name]["blockwise"]
        rows.append(target(f"{name}: causal / full", ratio, at_most=0.65))
    for case, peaks in memory.items() if length >= 2048 else ():  # at shorter lengths, a block is not small
        ratio = peaks["blockwise"] / max(peaks["reference"], 1)
        rows.append(target(f"memory {case}: blockwise / dense", ratio, at_most=0.1))
    return rows


def measure(
    lengths: tuple[int, ...] = (4096,),
    rounds: int = 5,
    cases: tuple[str, ...] = CASES,
    parts: tuple[str, ...] = PARTS,
) -> dict[str, Any]:
    """Runs the benchmark, or parts of it, and returns a JSON document. "times" is always measured."""
    document: dict[str, Any] = {
        "benchmark": "attention",
        "shape": {"batch": BATCH, "heads": HEADS, "head_width": WIDTH, "dtype": "float32"},
        **made(),
        "versions": versions("jax", "jaxlib", "flax", "torch"),
        "malloc": {"time": KEEP_PAGES, "memory": RETURN_PAGES},
        "lengths": {},
    }
    for length in lengths:
        result: dict[str, Any] = {}
        for what in (part for part in PARTS if part == "times" or part in parts):
            log(f"T = S = {length}: {what}, {rounds} interleaved rounds")
            result[what] = worker(MODULE, KEEP_PAGES, "time", what, str(length), str(rounds))
        memory: dict[str, dict[str, int]] = {}
        for case in cases if length <= LONGEST["reference"][1] else ():
            log(f"T = S = {length}: peak memory, {case}")
            forms = ("blockwise", "reference", *(("torch",) if case in ("plain", "causal") and has("torch") else ()))
            memory[case] = {
                form: worker(MODULE, RETURN_PAGES, "memory", form, case, str(length))["peak_bytes"] for form in forms
            }
        document["lengths"][str(length)] = {
            **result, "memory": memory, "targets": _targets(result["times"], memory, length)
        }  # fmt: skip
    return document


def show(document: dict[str, Any]) -> None:
    """Prints the tables."""
    for use, values in document["malloc"].items():
        print(f"malloc ({use}): " + " ".join(f"{name}={value}" for name, value in values.items()))
    for length, result in document["lengths"].items():
        print(f"\nT = S = {length}")
        for what in (part for part in PARTS if part in result):
            for name, rows in result[what].items():
                if name == "refused":
                    for form, why in rows.items():
                        print(f"  {form} does not run here: {why}")
                else:
                    print_times(name if what != "structures" else "structures", rows)
        for case, peaks in result["memory"].items():
            print(f"  memory {case:10s} " + "   ".join(f"{form} {size / 1e6:.0f} MB" for form, size in peaks.items()))
        print_targets(result["targets"])


def main(
    json: bool = False,
    lengths: tuple[int, ...] = (4096,),
    rounds: int = 5,
    cases: tuple[str, ...] = CASES,
    parts: tuple[str, ...] = PARTS,
) -> None:
    """Measures and prints tables, or with `json` one JSON document."""
    present(measure(lengths, rounds, cases, parts), json, show)


if __name__ == "__main__" and not serves({"time": time_worker, "memory": memory_worker}):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lengths", default="4096", help="comma-separated T = S")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated structures to measure memory of")
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated parts to time")
    given = parser.parse_args()
    lengths, cases, parts = (tuple(x.split(",")) for x in (given.lengths, given.cases, given.parts))
    main(given.json, tuple(map(int, lengths)), given.rounds, cases, parts)
