"""The measurements of `lectures/positions` on the sinusoid, on equivalent forms, and on shifted text."""

from __future__ import annotations

from typing import Any


def measure_sinusoid(*, code_width: int, code_length: int, drawn: int, seed: int, **_: Any) -> dict[str, Any]:
    """Measures the sinusoid.

    - "wavelength_error": the largest relative difference from `2 pi 10000^(2i/D)`, over features with at least one
      period within the length;
    - "rotation_error": the largest absolute value of p(t + k) - R_k p(t);
    - "diagonal_variation" and "by_offset": of the dot products;
    - "changes" and "changes_of_bits": the numbers of sign changes of the sines and of the bits;
    - "heat" and "bits": the data of the figures.
    """
    import numpy as np

    from . import codes

    del seed
    table = codes.sinusoidal(code_length, code_width)
    wanted = 2 * np.pi * 10000 ** (np.arange(0, code_width, 2) / code_width)
    within = wanted <= code_length
    errors = np.abs(codes.wavelengths(table) / wanted - 1)[within]
    turned = (np.abs(table[k:] - table[:-k] @ codes.rotation(code_width, k).T).max() for k in (1, 7, 100))
    first = table[: 4 * drawn]
    by_offset, variation = codes.along_diagonals(first @ first.T)
    bits = codes.binary(drawn, 8)
    return {
        "wavelength_error": float(errors.max()),
        "rotation_error": float(max(turned)),
        "diagonal_variation": variation,
        "by_offset": by_offset,
        "changes": codes.sign_changes(table[:1024])[0::2],
        "changes_of_bits": codes.sign_changes(codes.binary(1024, 10)),
        "heat": table[:drawn].round(4).tolist(),
        "bits": bits.tolist(),
    }


def measure_identities(*, code_width: int, seed: int, **_: Any) -> dict[str, float]:
    """Measures the largest differences of q, k and v between equivalent forms of position encodings.

    "tied" is between concatenated positions, with equal weight blocks for tokens and positions, and added positions;
    "untied" is the same with different blocks. "inside" is between positions added to the input of a layer and their
    projections added to its queries, keys and values; "bare" adds p itself to q, k and v instead.
    """
    import jax
    import jax.numpy as jnp

    from attention_research.kernels import sinusoidal_positions
    from attention_research.kernels.positions import project_concatenated

    keys = jax.random.split(jax.random.key(seed), 9)
    length, width = 50, code_width
    x, encoding = jax.random.normal(keys[0], (2, length, width)), sinusoidal_positions(length, width)[None]
    found = {"tied": 0.0, "untied": 0.0, "inside": 0.0, "bare": 0.0}
    for number in range(3):  # queries, keys, values
        weight, other = (jax.random.normal(keys[2 * number + n + 1], (width, width)) * width**-0.5 for n in (0, 1))
        added = jnp.einsum("btd,do->bto", x + encoding, weight)
        forms = {
            "tied": project_concatenated(x, encoding, jnp.concatenate([weight, weight])),
            "untied": project_concatenated(x, encoding, jnp.concatenate([weight, other])),
            "inside": jnp.einsum("btd,do->bto", x, weight) + jnp.einsum("btd,do->bto", encoding, weight),
            "bare": jnp.einsum("btd,do->bto", x, weight) + encoding,
        }
        for name, form in forms.items():
            found[name] = max(found[name], float(jnp.abs(form - added).max()))
    return found


def measure_shift(*, attention: str, seed: int, **_: Any) -> dict[str, float]:
    """Returns "moved", the largest change of the attention weights of an untrained layer when the same tokens are
    shifted by 37 positions."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from attention_research.kernels import sinusoidal_positions
    from attention_research.layers.attention.multi_head import Where, owned_by_stack
    from attention_research.registry import lookup
    from attention_research.signatures import Constructor

    kind = "standard" if attention == "absolute" else attention
    width, length, shift = 64, 20, 37
    settings: dict[str, Any] = {"width": width, "num_heads": 4, "head_width": None}
    settings |= {"num_buckets": 32, "max_distance": 128} if kind == "t5" else {}
    constructor = Constructor(lookup("causal_attention", kind), settings)
    rngs = nnx.Rngs(jax.random.key(seed))
    layer, shared = constructor(rngs=rngs), owned_by_stack(constructor, rngs)
    x = jax.random.normal(jax.random.key(seed + 1), (1, length, width))
    table = sinusoidal_positions(length + shift, width)

    def weights(first: int) -> jax.Array:
        read = x + table[None, first : first + length] if attention == "absolute" else x
        before = jnp.zeros((1, first, width))
        keys = jnp.concatenate([before, read], axis=1)
        key, value = layer.keys_values(keys)
        places = jnp.arange(first + length)
        mask = ((places >= first) & (places <= jnp.arange(first, first + length)[:, None]))[None, None]
        _, found = layer.mix(layer.queries(read), key, value, Where(mask, offset=jnp.int32(first), shared=shared))
        return found[..., first:]

    return {"moved": float(jnp.abs(weights(0) - weights(shift)).max())}
