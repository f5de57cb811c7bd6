"""What a block costs by length: Linformer against softmax attention, materialised and fused, side by side.

A block is x + attention(x), then x + feed-forward(x) with 4 D hidden units, one row, forward alone (Wang et al. 2020,
arXiv 2006.04768, section 5.3, times inference). Materialised attention writes its [N T S] scores; the fused kernel
never does. The three are timed in turn in one process; memory is what the compiled program allocates beside its
arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx

from attention_research.accounting.clock import measure_call
from attention_research.layers.attention.linformer import LinformerAttention
from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.feed_forward.dense import DenseFeedForward

#: Name -> the kernel of standard attention.
STANDARD: dict[str, Literal["reference", "blockwise"]] = {"materialised": "reference", "fused": "blockwise"}


def make(name: str, length: int, *, width: int, num_heads: int, rank: int, key: jax.Array) -> tuple[Any, Any]:
    """(attention, feed-forward) of a name of `STANDARD` or "linformer", with one projection for keys and values."""
    settings: dict[str, Any] = {"width": width, "num_heads": num_heads, "head_width": None, "rngs": nnx.Rngs(key)}
    if name == "linformer":
        attention = LinformerAttention(max_length=length, rank=rank, sharing="key_value", **settings)
    else:
        attention = StandardAttention(implementation=STANDARD[name], **settings)
    return attention, DenseFeedForward(width=width, hidden_width=4 * width, rngs=nnx.Rngs(key))


def block(modules: tuple[Any, Any], x: jax.Array) -> jax.Array:
    """x + attention, then x + feed-forward."""
    attention, feed_forward = modules
    x = x + attention(x)[0]
    return x + feed_forward(x)[0]


def allocated(modules: Any, x: Any) -> int:
    """Bytes that the compiled program holds beside arguments and result."""
    memory: Any = jax.jit(block).lower(modules, x).compile().memory_analysis()
    return memory.temp_size_in_bytes


def measure_length_cost(
    *, rank: int, lengths: Sequence[int], width: int, num_heads: int, seconds: float, seed: int, **_: Any
) -> dict[str, Any]:
    """By length above the rank ("lengths"): "milliseconds" and "bytes" of the three, lists by name; and flat,
    "time_512" and "memory_512", how many times less than materialised attention Linformer takes, "fused_time_512" and
    "fused_memory_512" than fused attention."""
    chosen = [length for length in lengths if length > rank]
    names = (*STANDARD, "linformer")
    found: dict[str, Any] = {"lengths": chosen, "milliseconds": {n: [] for n in names}, "bytes": {n: [] for n in names}}
    for length in chosen:
        key = jax.random.fold_in(jax.random.key(seed), length)
        x = jax.random.normal(key, (1, length, width), jnp.float32)
        for name in names:
            modules = make(name, length, width=width, num_heads=num_heads, rank=rank, key=key)
            timed = measure_call(block, modules, x, seconds=seconds, repeats=3)["milliseconds"]
            found["milliseconds"][name].append(timed)
            found["bytes"][name].append(allocated(modules, x))
        for prefix, name in (("", "materialised"), ("fused_", "fused")):
            for what, kind in (("time", "milliseconds"), ("memory", "bytes")):
                ratio = found[kind][name][-1] / found[kind]["linformer"][-1]
                found[f"{prefix}{what}_{length}"] = ratio
    return found
