"""Pretrained embeddings from a NumPy file, for example from latent semantic analysis or skip-gram."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.errors import ConfigError
from attention_research.kernels.integers import as_int32
from attention_research.signatures import Positive


class FileEmbedding(nnx.Module):
    """An embedding table [V D] from `file` (.npy, [v D] with v at most V; missing rows are 0), `frozen` or trained.

    The file is read when parameters are initialized, so that counting parameters does not need it. It raises
    ConfigError if the file is missing or has a wrong shape.
    """

    def __init__(
        self,
        *,
        file: str,
        frozen: bool = True,
        vocabulary_size: Positive,
        width: Positive,
        dtype: Literal["float32", "bfloat16"],
        rngs: nnx.Rngs,
    ):
        shape = jax.ShapeDtypeStruct((vocabulary_size, width), jnp.float32)
        # The key is an argument so that each replica gets a table: replicas are mapped over their keys.
        key = jax.random.key_data(rngs.params())
        table = jax.pure_callback(partial(_read, file, shape.shape), shape, key, vmap_method="sequential")
        self.dtype = dtype
        self.table = nnx.BatchStat(table) if frozen else nnx.Param(table)

    def __call__(self, ids: Int[Array, "*B"]) -> Float[Array, "*B D"]:
        """The embeddings of the tokens, in the compute dtype."""
        return self.table[...][as_int32("ids", ids)].astype(self.dtype)


def _read(file: str, shape: tuple[int, int], key: Any) -> np.ndarray:
    del key
    try:
        found = np.load(file)
    except (OSError, ValueError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not a .npy file"
        raise ConfigError(f"embedding.file: {file}: {why}") from error
    if found.ndim != 2 or found.shape[0] > shape[0] or found.shape[1] != shape[1]:
        expected = f"expected at most {shape[0]} rows of width {shape[1]}"
        raise ConfigError(f"embedding.file: {file}: {expected}, got shape {found.shape}")
    return np.pad(found.astype(np.float32), ((0, shape[0] - found.shape[0]), (0, 0)))
