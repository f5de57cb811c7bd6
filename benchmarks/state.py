"""Time of the chunked state kernels against a loop, jax-linear-attention and attention, on a CPU or one GPU.

    python -m benchmarks.state [--json] [--lengths=512,1024,2048,4096,8192] [--rounds=7] [--members=retention,...]
    python -m benchmarks.state --platform=cuda --batch=8 --dtype=bfloat16    # on one GPU

One batch element with 8 heads of 64, float32, forward and forward+backward, interleaved in one process (see
`_interleaved`). `attention` is causal: `blockwise` on a CPU, on a GPU the kernel that is chosen by default. `loop` is a
`lax.scan` over positions; its gradient keeps every state, so that it runs up to 1,024. The peer is the plain JAX code
of jax-linear-attention 0.1.0 (`jla.ops.chunked`) with its own chunk length. It asks for a newer JAX than this project
but runs without it. Without the peer, its column is left out:

    pip install --no-deps --ignore-requires-python jax-linear-attention==0.1.0
    python -m benchmarks.state --peer=FOLDER          # or a folder with the unpacked package
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from typing import Any

from ._interleaved import (
    KEEP_PAGES,
    has,
    interleaved,
    log,
    made,
    present,
    print_targets,
    print_times,
    serves,
    target,
    versions,
    worker,
)

MODULE = __spec__.name
LENGTHS = (512, 1024, 2048, 4096, 8192)
PEER = "ATTENTION_RESEARCH_PEER"
#: The longest length of the loop.
LONGEST_LOOP = 1024
N, H = 8, 64
PASSES = ("forward", "forward+backward")
#: member -> (the function of the peer, whether decays are by channel (None: no decay), whether it is a delta rule).
MEMBERS: dict[str, tuple[str, bool | None, bool]] = {
    "retention": ("simple_gla", False, False),
    "gated_linear_attention": ("gla", True, False),
    "delta_rule": ("delta_rule", None, True),
    "gated_delta_rule": ("gated_delta_rule", False, True),
    "kimi_delta_attention": ("kda", True, True),
}


def forms(member: str, length: int, batch: int, dtype: str) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Form -> (function, arrays)."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from attention_research.kernels import dot_product_attention
    from attention_research.kernels.state import delta_attention, delta_step, state_attention, state_step

    peer, by_channel, is_delta = MEMBERS[member]
    random = np.random.default_rng(0)
    normal = lambda *more: jnp.asarray(random.standard_normal((batch, length, N, *more)), jnp.float32)
    query, key, value = normal(H), normal(H), normal(H)
    key = key / jnp.linalg.norm(key, axis=-1, keepdims=True)
    arrays = {name: x.astype(dtype) for name, x in {"query": query, "key": key, "value": value}.items()}
    if by_channel is not None:
        arrays["log_decay"] = -jnp.abs(normal(*[H] * by_channel)) / 10
    if is_delta:
        arrays["beta"] = jax.nn.sigmoid(normal()).astype(dtype)
    names, given = tuple(arrays), tuple(arrays.values())
    attention = "blockwise" if jax.default_backend() == "cpu" else None
    kernel, step = (delta_attention, delta_step) if is_delta else (state_attention, state_step)

    def loop(*given: Any) -> Any:
        state = jnp.zeros((batch, N, H, H), jnp.float32)
        body = lambda state, now: step(state, **dict(zip(names, now, strict=True)))
        return jax.lax.scan(body, state, tuple(x.swapaxes(0, 1) for x in given))[1]

    found: dict[str, Any] = {
        "chunks": (lambda *given: kernel(**dict(zip(names, given, strict=True)))[0], given),
        "attention": (
            lambda *given: dot_product_attention(*given, is_causal=True, implementation=attention),
            given[:3],
        ),
    }
    if length <= LONGEST_LOOP:
        found["loop"] = (loop, given)
    if has("jla"):
        from jla.ops import chunked

        found["peer"] = (lambda *given: getattr(chunked, peer)(*given)[0], given)
    return found


def time_worker(length: int, rounds: int, member: str, batch: int, dtype: str) -> dict[str, Any]:
    """{pass: {form: {median_ms, low_ms, high_ms, samples}}} at one length."""
    import jax
    import jax.numpy as jnp

    sys.path += filter(None, [os.environ.get(PEER)])
    found: dict[str, Any] = {}
    made_forms = forms(member, length, batch, dtype)
    for which in PASSES:
        calls = {}
        for form, (function, arrays) in made_forms.items():
            if which != PASSES[0]:
                loss = lambda *given, function=function: jnp.sum(jnp.square(function(*given).astype(jnp.float32)))
                function = jax.grad(loss, argnums=tuple(range(len(arrays))))
            program = jax.jit(function).lower(*arrays).compile()
            calls[form] = lambda program=program, arrays=arrays: jax.block_until_ready(program(*arrays))
        found[which] = interleaved(calls, rounds)
    return {**found, "devices": [device.device_kind for device in jax.devices()]}


def targets_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """At most 0.8 of the peer's time at every length, linear in T, and faster than attention from 2,048 on."""
    rows = []
    lengths = [int(T) for T in document["times"]]
    for member in document["shape"]["members"]:
        for which in PASSES:
            medians = {T: {form: row["median_ms"] for form, row in document["times"][str(T)][member][which].items()
                           if isinstance(row, dict)} for T in lengths}  # fmt: skip
            for T in lengths:
                if "peer" in medians[T]:
                    ratio = medians[T]["chunks"] / medians[T]["peer"]
                    rows.append(target(f"{member}, {which}, {T}, of the peer", ratio, at_most=0.8))
                if T >= 2048:
                    ratio = medians[T]["chunks"] / medians[T]["attention"]
                    rows.append(target(f"{member}, {which}, {T}, of attention", ratio, at_most=1.0))
            if len(lengths) > 1:
                growth = math.log(medians[lengths[-1]]["chunks"] / medians[lengths[0]]["chunks"])
                exponent = growth / math.log(lengths[-1] / lengths[0])
                rows.append(target(f"{member}, {which}, exponent of the length", exponent, at_most=1.1))
    return rows


def measure(
    lengths: tuple[int, ...], rounds: int, members: tuple[str, ...], platform: str, batch: int, dtype: str
) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    document: dict[str, Any] = {
        "benchmark": "state",
        "shape": {"B": batch, "N": N, "H": H, "dtype": dtype, "lengths": list(lengths), "members": list(members)},
        **made(),
        "versions": versions("jax", "jaxlib"),
        "times": {},
    }
    for length in lengths:
        log(f"T = {length}: {rounds} interleaved rounds")
        document["times"][str(length)] = {
            member: worker(
                MODULE, {**KEEP_PAGES, "JAX_PLATFORMS": platform}, "time", str(length), str(rounds), member, str(batch),
                dtype,
            )
            for member in members
        }  # fmt: skip
    document["targets"] = targets_of(document)
    return document


def show(document: dict[str, Any]) -> None:
    """Prints the times and targets."""
    for T, of_members in document["times"].items():
        for member, found in of_members.items():
            for which in PASSES:
                print(f"{member}, T = {T}, {which}; others took {found[which]['others_took']:.0%} of the cores")
                print_times("", found[which])
    print_targets(document["targets"])


if __name__ == "__main__" and not serves({"time": time_worker}):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--members", default=",".join(MEMBERS), help="comma-separated")
    parser.add_argument("--peer", help="a folder with the package jla")
    parser.add_argument("--platform", default="cpu", help="as in JAX_PLATFORMS")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", default="float32", help="of queries, keys and values; decays are float32")
    options = parser.parse_args()
    if options.peer:
        os.environ[PEER] = os.path.abspath(options.peer)
    whole = measure(
        tuple(map(int, options.lengths.split(","))), options.rounds, tuple(options.members.split(",")),
        options.platform, options.batch, options.dtype,
    )  # fmt: skip
    present(whole, options.json, show)
