"""What the attention kernels of the libraries and of Pallas cannot honour, by the platform that a program is for.

Nothing here imports Pallas: a process asks for every platform, and needs the kernels of one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from attention_research.kernels.attention.arguments import Arrays, Options
from attention_research.kernels.symbolic import symbolic

GPUS = ("cuda", "rocm")
#: A wider head's tiles do not fit into shared memory.
WIDEST = 256


def varies(arrays: Arrays) -> bool:
    """Whether shard_map keeps account of the mesh axes over which some of the arrays vary."""
    return any(jax.typeof(array).manual_axis_type.varying for array in jax.tree.leaves(arrays))


def refusal(implementation: str, arrays: Arrays, options: Options, platform: str) -> str | None:
    """Why an implementation cannot honour the arguments on a platform; None where it can."""
    if implementation == "reference":
        return None
    (B, T, *_), S = arrays.query.shape, arrays.key.shape[1]
    for name, axis, size in (("query", "B", B), ("query", "T", T), ("key", "S", S)):
        if symbolic(size) and not (implementation == "xla" and options.left is None and options.right in (None, 0)):
            return f"axis {axis} of {name}: expected a number, got the symbolic size {size}; the reference takes it"
    if implementation == "blockwise":
        return None
    if arrays.query_offset is not None:
        return "query_offset: only reference and blockwise take an array"
    for name, given in (
        ("soft_cap", options.soft_cap is not None),
        ("sink", arrays.sink is not None),
        ("return_residual", options.residual),
        ("query_offset", min(options.left or 0, options.right or 0) < 0),
    ):
        if given and implementation != "pallas":
            return f"{name}: only reference, blockwise and pallas have it"
    return {"xla": xla, "cudnn": cudnn, "pallas": pallas, "splash": splash}[implementation](arrays, options, platform)


def xla(arrays: Arrays, options: Options, platform: str) -> str | None:
    """Why `jax.nn.dot_product_attention` cannot."""
    H, Hv = arrays.query.shape[3], arrays.value.shape[-1]
    return None if Hv == H else f"axis Hv of value: expected the query's head width {H}, got {Hv}"


def cudnn(arrays: Arrays, options: Options, platform: str) -> str | None:
    """Why cuDNN cannot."""
    T, H = arrays.query.shape[1], arrays.query.shape[3]
    if platform != "cuda":
        return f"cuDNN needs a GPU (CUDA); the platform is {platform}"
    if jax.default_backend() != "gpu":
        return "cuDNN is asked for its version where the program is lowered, and this process has no NVIDIA GPU"
    if (reason := xla(arrays, options, platform)) is not None:
        return reason
    if arrays.query.dtype not in (jnp.bfloat16, jnp.float16):
        return f"dtype of query: expected bfloat16 or float16, got {arrays.query.dtype}"
    if H % 8 or H > 128:
        return f"axis H of query: expected a multiple of 8 up to 128, got {H}"
    if options.left is not None and options.right != 0:
        return "local_window_size: cuDNN has a left window with causal attention only"
    if options.right not in (None, 0):
        return "local_window_size: cuDNN has no right window"
    if options.right == 0 and T != arrays.key.shape[1]:
        return f"axis S of key: causal attention here expects {T} keys, got {arrays.key.shape[1]}"
    return None


def pallas(arrays: Arrays, options: Options, platform: str) -> str | None:
    """Why the kernels of `pallas` cannot."""
    if platform not in (*GPUS, "cpu"):
        return f"these Pallas kernels need a GPU (a CPU interprets them); the platform is {platform}"
    if platform in GPUS and arrays.query.dtype not in (jnp.bfloat16, jnp.float16, jnp.float32):
        return f"dtype of query: expected bfloat16, float16 or float32 on a GPU, got {arrays.query.dtype}"
    if platform == "cpu" and varies(arrays):
        return "query: inside shard_map kernels are interpreted with check_vma=False only"
    for name in ("distance_bias", "key_table", "value_table"):
        if getattr(arrays, name) is not None:
            return f"{name}: these kernels have no gradient for terms by distance; blockwise has"
    for name, axis, width in (("query", "H", arrays.query.shape[3]), ("value", "Hv", arrays.value.shape[3])):
        if width > WIDEST:
            return f"axis {axis} of {name}: expected up to {WIDEST}, got {width}"
    return None


def splash(arrays: Arrays, options: Options, platform: str) -> str | None:
    """Why Splash attention cannot."""
    if platform not in ("tpu", "cpu"):
        return f"Splash attention needs a TPU (a CPU interprets it); the platform is {platform}"
    if varies(arrays):
        return "query: inside shard_map Splash attention runs with check_vma=False only"
    if arrays.query.dtype not in (jnp.bfloat16, jnp.float32):
        return f"dtype of query: expected bfloat16 or float32, got {arrays.query.dtype}"
    for name in ("bias", "distance_bias", "key_table", "value_table"):
        if getattr(arrays, name) is not None:
            return f"{name}: Splash attention adds nothing to the logits"
    if arrays.mask is not None and arrays.mask.shape[1:3] != (1, 1):
        return f"mask: expected a mask of keys [B 1 1 S] (Splash attention), got {list(arrays.mask.shape)}"
    return None


def refuse(implementation: str, arrays: Arrays, options: Options, platform: str) -> None:
    """Raises ValueError where `refusal` has a reason."""
    reason = refusal(implementation, arrays, options, platform)
    if reason is not None:
        raise ValueError(f"implementation={implementation!r}: {reason}")
