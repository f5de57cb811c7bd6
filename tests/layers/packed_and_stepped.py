"""The outputs that a causal layer without attention weights has to give alike: packed rows, a prompt and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.kernels.masks import segment_mask

#: A prompt with padding on the left, as before a target.
PROMPT = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)


def outputs(structure: Any, parameters: Mapping[str, Any], x: Any, segments: np.ndarray, length: int) -> dict[str, Any]:
    """By one program: "packed" rows with these segments, "wide" rows without a mask and the same "narrow" in bfloat16,
    the "whole" row after `PROMPT`, and the same as the "prompt" and the "rest", one position after the other."""
    size, end = PROMPT.shape[1], x.shape[1] - PROMPT.shape[1]

    @jax.jit
    def everything(p: Any, x: jax.Array) -> dict[str, jax.Array]:
        module = structure.merge(p)
        packed, _ = module(x, mask=segment_mask(jnp.asarray(segments), jnp.asarray(segments)), is_causal=True)
        real = jnp.concatenate([jnp.asarray(PROMPT), jnp.ones((len(x), end), bool)], 1)
        whole, _ = module(x, mask=real[:, None, None], is_causal=True)
        seen = jnp.asarray(PROMPT)[:, None, None]
        prompt, cache, _ = module.prefill(x[:, :size], length, mask=seen, is_causal=True)

        def step(carry: tuple[Any, jax.Array], now: jax.Array) -> tuple[tuple[Any, jax.Array], jax.Array]:
            y, cache, _ = module.step(now[:, None], *carry)
            return (cache, carry[1] + 1), y[:, 0]

        _, rest = jax.lax.scan(step, (cache, jnp.int32(size)), x[:, size:].swapaxes(0, 1))
        narrow, _ = module(x.astype(jnp.bfloat16), is_causal=True)
        wide, _ = module(x, is_causal=True)
        return {"packed": packed, "whole": whole, "prompt": prompt, "rest": rest.swapaxes(0, 1), "narrow": narrow,
                "wide": wide}  # fmt: skip

    return everything({name: jnp.float32(p) for name, p in parameters.items()}, jnp.float32(x))
