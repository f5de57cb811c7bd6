"""The cost of a block by length: Linformer against softmax attention, materialized and fused.

A block is x + attention(x), then x + feed-forward(x) with 4 D hidden units. It is applied to one row, forward only
(Wang et al. 2020, arXiv 2006.04768, section 5.3, also time inference). Materialized attention writes its [N T S] scores
to memory; the fused kernel does not. The three are timed alternately in one process. Memory is the
temporary memory of the compiled program, without its arguments.
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
    """Builds (attention, feed-forward) for a name of `STANDARD` or "linformer", which projects keys and values
    alike."""
    settings: dict[str, Any] = {"width": width, "num_heads": num_heads, "head_width": None, "rngs": nnx.Rngs(key)}
    if name == "linformer":
        attention = LinformerAttention(max_length=length, rank=rank, sharing="key_value", **settings)
    else:
        attention = StandardAttention(implementation=STANDARD[name], **settings)
    return attention, DenseFeedForward(width=width, hidden_width=4 * width, rngs=nnx.Rngs(key))


def block(modules: tuple[Any, Any], x: jax.Array) -> jax.Array:
    """Computes x + attention, then x + feed-forward."""
    attention, feed_forward = modules
    x = x + attention(x)[0]
    return x + feed_forward(x)[0]


def allocated(modules: Any, x: Any) -> int:
    """The bytes that the compiled program allocates beside arguments and result."""
    memory: Any = jax.jit(block).lower(modules, x).compile().memory_analysis()
    return memory.temp_size_in_bytes


def measure_length_cost(
    *, rank: int, lengths: Sequence[int], width: int, num_heads: int, seconds: float, seed: int, **_: Any
) -> dict[str, Any]:
    """Measures the costs by length, for lengths above the rank ("lengths").

    "milliseconds" and "bytes" are lists for each of the three kinds. "time_512" and "memory_512" and so on are the
    costs of materialized attention divided by those of Linformer; "fused_time_512" and "fused_memory_512" are those of
    fused attention divided by those of Linformer.
    """
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
