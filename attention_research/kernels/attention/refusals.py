"""The arguments that the attention kernels of libraries and of Pallas do not support, for each platform.

This module does not import Pallas, because a process asks about all platforms and needs the kernels of only one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from attention_research.kernels.attention.arguments import Arrays, Options
from attention_research.kernels.symbolic import symbolic

GPUS = ("cuda", "rocm")
#: The maximum head width. The tiles of a wider head do not fit into shared memory.
WIDEST = 256


def varies(arrays: Arrays) -> bool:
    """Whether some of the arrays vary over mesh axes inside a shard_map that tracks this."""
    return any(jax.typeof(array).manual_axis_type.varying for array in jax.tree.leaves(arrays))


def refusal(implementation: str, arrays: Arrays, options: Options, platform: str) -> str | None:
    """The reason why an implementation does not support the arguments on a platform, or None if it does."""
    if implementation == "reference":
        return None
    (B, T, *_), S = arrays.query.shape, arrays.key.shape[1]
    for name, axis, size in (("query", "B", B), ("query", "T", T), ("key", "S", S)):
        if symbolic(size) and not (implementation == "xla" and options.left is None and options.right in (None, 0)):
            return f"axis {axis} of {name}: expected a number, got the symbolic size {size}; use the reference"
    if implementation == "blockwise":
        return None
    if arrays.query_offset is not None:
        return "query_offset: only reference and blockwise support an array"
    for name, given in (
        ("soft_cap", options.soft_cap is not None),
        ("sink", arrays.sink is not None),
        ("return_residual", options.residual),
        ("query_offset", min(options.left or 0, options.right or 0) < 0),
    ):
        if given and implementation != "pallas":
            return f"{name}: only reference, blockwise and pallas support it"
    return {"xla": xla, "cudnn": cudnn, "pallas": pallas, "splash": splash}[implementation](arrays, options, platform)


def xla(arrays: Arrays, options: Options, platform: str) -> str | None:
    """The reason why `jax.nn.dot_product_attention` does not support the arguments, or None."""
    H, Hv = arrays.query.shape[3], arrays.value.shape[-1]
    return None if Hv == H else f"axis Hv of value: expected the query's head width {H}, got {Hv}"


def cudnn(arrays: Arrays, options: Options, platform: str) -> str | None:
    """The reason why cuDNN does not support the arguments, or None."""
    T, H = arrays.query.shape[1], arrays.query.shape[3]
    if platform != "cuda":
        return f"cuDNN needs a GPU (CUDA); the platform is {platform}"
    if jax.default_backend() != "gpu":
        return "lowering for cuDNN needs the cuDNN version, and this process has no NVIDIA GPU"
    if (reason := xla(arrays, options, platform)) is not None:
        return reason
    if arrays.query.dtype not in (jnp.bfloat16, jnp.float16):
        return f"dtype of query: expected bfloat16 or float16, got {arrays.query.dtype}"
    if H % 8 or H > 128:
        return f"axis H of query: expected a multiple of 8 up to 128, got {H}"
    if options.left is not None and options.right != 0:
        return "local_window_size: cuDNN supports a left window only with causal attention"
    if options.right not in (None, 0):
        return "local_window_size: cuDNN does not support a right window"
    if options.right == 0 and T != arrays.key.shape[1]:
        return f"axis S of key: causal attention here expects {T} keys, got {arrays.key.shape[1]}"
    return None


def pallas(arrays: Arrays, options: Options, platform: str) -> str | None:
    """The reason why the kernels of `pallas` do not support the arguments, or None."""
    if platform not in (*GPUS, "cpu"):
        return f"these Pallas kernels need a GPU (a CPU interprets them); the platform is {platform}"
    if platform in GPUS and arrays.query.dtype not in (jnp.bfloat16, jnp.float16, jnp.float32):
        return f"dtype of query: expected bfloat16, float16 or float32 on a GPU, got {arrays.query.dtype}"
    if platform == "cpu" and varies(arrays):
        return "query: inside shard_map, kernels are interpreted only with check_vma=False"
    for name in ("distance_bias", "key_table", "value_table"):
        if getattr(arrays, name) is not None:
            return f"{name}: these kernels do not support terms by distance; use blockwise"
    for name, axis, width in (("query", "H", arrays.query.shape[3]), ("value", "Hv", arrays.value.shape[3])):
        if width > WIDEST:
            return f"axis {axis} of {name}: expected up to {WIDEST}, got {width}"
    return None


def splash(arrays: Arrays, options: Options, platform: str) -> str | None:
    """The reason why Splash attention does not support the arguments, or None."""
    if platform not in ("tpu", "cpu"):
        return f"Splash attention needs a TPU (a CPU interprets it); the platform is {platform}"
    if varies(arrays):
        return "query: inside shard_map, Splash attention runs only with check_vma=False"
    if arrays.query.dtype not in (jnp.bfloat16, jnp.float32):
        return f"dtype of query: expected bfloat16 or float32, got {arrays.query.dtype}"
    for name in ("bias", "distance_bias", "key_table", "value_table"):
        if getattr(arrays, name) is not None:
            return f"{name}: Splash attention does not support terms that are added to the logits"
    if arrays.mask is not None and arrays.mask.shape[1:3] != (1, 1):
        return f"mask: expected a key mask [B 1 1 S] (Splash attention), got {list(arrays.mask.shape)}"
    return None


class Refused(ValueError):
    """The implementation that was asked for does not support the arguments or the platform."""


def refuse(implementation: str, arrays: Arrays, options: Options, platform: str) -> None:
    """Raises Refused if `refusal` returns a reason."""
    reason = refusal(implementation, arrays, options, platform)
    if reason is not None:
        raise Refused(f"implementation={implementation!r}: {reason}")
