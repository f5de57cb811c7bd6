"""Measures how many source words a translation model needs for one target word: the mass of the largest attention
weights, and BLEU when all other weights are zero.

The mass of the k largest weights of a step is their sum. For BLEU, all weights except the k largest of a step are set
to 0 while the model translates. The k weights keep their values and are not normalized to sum to 1. RNNsearch has one
weight for each source token and step. A Transformer has one weight for each source token, step, layer and head: the k
tokens of a layer are those with the largest mean over its heads, all other tokens are hidden from all heads, and masses
are averaged over layers. The end-of-sentence symbol counts as a token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.analysis.by_length import sample, translate
from attention_research.kernels import attention_weights
from attention_research.layers.alignment.global_alignment import GlobalAlignment
from attention_research.layers.alignment.protocol import Arrays, average
from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.standard import StandardAttention
from attention_research.tasks.evaluation import corpus_bleu
from attention_research.tokens import PAD
from attention_research.training.evaluation import Trained

MOST = (1, 2, 3)


def largest(weights: Float[Array, "*Q S"], most: int) -> Bool[Array, "*Q S"]:
    """Marks the `most` largest values of each row. Of equal values the first is chosen."""
    _, places = jax.lax.top_k(weights, min(most, weights.shape[-1]))
    return jnp.any(jax.nn.one_hot(places, weights.shape[-1], dtype=bool), axis=-2)


class FewAlignment(GlobalAlignment):
    """Global attention in which all weights except the `most` largest are 0."""

    most: int

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """Returns the sum of the values under the remaining weights, these weights, and the state."""
        _, weights, state = super().__call__(query, fixed, state, key=key)
        left = jnp.where(largest(weights, self.most), weights, 0.0)
        return average(left, fixed["values"]), left, state


class FewAttention(StandardAttention):
    """Standard attention in which only the `most` keys with the largest mean weight over heads keep their weights."""

    most: int

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Returns the sum of the values under the remaining weights, and these weights."""
        weights = attention_weights(query, key, mask=where.mask, is_causal=where.is_causal)
        left = jnp.where(largest(weights.mean(axis=1, keepdims=True), self.most), weights, 0.0)
        return jnp.einsum("BNTS,BSNH->BTNH", left.astype(value.dtype), value), left


def consulting_few(model: Any, most: int) -> Any:
    """Restricts the model's attention to the source to the `most` largest weights. The model is changed in place.

    Raises TypeError if this attention is neither global alignment nor standard attention.
    """
    if hasattr(model.decoder, "alignment"):
        model.decoder.alignment = _as(FewAlignment, model.decoder.alignment, most)
        return model
    for blocks in model.decoder.stack.segments:
        for name in [name for name in vars(blocks) if name.startswith("cross_attention")]:
            setattr(blocks, name, _as(FewAttention, getattr(blocks, name), most))
    return model


def _as(kind: type, module: nnx.Module, most: int) -> Any:
    """Returns a module of type `kind` with the parameters and settings of `module`."""
    (base,) = kind.__bases__
    if type(module) is not base:
        raise TypeError(f"{type(module).__name__} is not {base.__name__}: which of its weights to leave is not known")
    made: Any = object.__new__(kind)
    vars(made).update({**vars(module), "most": most})
    return made


def source_weights(collected: dict[str, Any]) -> Float[Array, "L B T S"]:
    """Returns the weights over source tokens of each layer from the intermediates of a forward pass.

    For a Transformer they are averaged over heads.
    """
    decoder = collected["decoder"]
    if "alignment" in decoder:
        return decoder["alignment"][None]
    found = [
        given["attention_weights"].mean(axis=2)
        for segment in decoder.values()
        for name, given in segment.items()
        if name.startswith("cross_attention")
    ]
    return jnp.concatenate(found)


def masses(weights: Float[Array, "L B T S"]) -> Float[Array, "B T K"]:
    """For each k of `MOST`, the sum of the k largest weights of each step, averaged over layers."""
    found, _ = jax.lax.top_k(weights, max(MOST))
    return jnp.cumsum(found, axis=-1).mean(axis=0)[..., jnp.asarray(MOST) - 1]


def mean_masses(trained: Trained, examples: int) -> dict[str, float]:
    """Returns "mass_1" and so on, averaged over the target tokens of test sentences, and "even_1" and so on.

    The decoder reads the references. The "even" values are the masses of uniform weights.
    """

    @jax.jit
    def of_batch(arrays: Any, batch: dict[str, Array]) -> Array:
        return masses(source_weights(trained.trainer.structure.merge(*arrays).log_likelihood(batch)[1]))

    found, even = [], []
    for ids, batch in trained.data.evaluation_batches("test", 64, examples):
        real = (batch["target"] != PAD) & (ids >= 0)[:, None]
        found.append(np.asarray(of_batch(trained.model(), batch), np.float64)[real])
        sizes = np.repeat((batch["source"] != PAD).sum(axis=1)[:, None], real.shape[1], axis=1)[real]
        even.append(np.minimum(np.asarray(MOST) / sizes[:, None], 1.0))
    named = {"mass": np.concatenate(found).mean(axis=0), "even": np.concatenate(even).mean(axis=0)}
    return {f"{name}_{k}": float(x) for name, values in named.items() for k, x in zip(MOST, values, strict=True)}


def measure_few(*, workdir: Path, seed: int, examples: int, **_: Any) -> dict[str, Any]:
    """Measures a trained run: `mean_masses`, and BLEU with all and with few attention weights.

    "bleu_whole" is BLEU with all weights. For each k, "bleu_k" is BLEU with all except the k largest weights at 0, and
    "kept_k" is "bleu_k" divided by "bleu_whole" (None if that is 0). BLEU uses only test sentences that are not longer
    than the training sentences.
    """
    del seed
    trained = Trained(workdir)
    longest = trained.config.resolved["data"]["max_length"]
    sources, references = trained.data.text("test")
    lengths = [len(ids) for ids in trained.data.tokenizer.encode(sources)]
    chosen = [i for i in sample(len(sources)) if lengths[i] <= longest][:examples]
    sources, references = [sources[i] for i in chosen], [references[i] for i in chosen]
    score = lambda **change: corpus_bleu(translate(trained, sources, longest=longest, **change), references)[0]
    whole = score()
    bleu = {k: score(around=lambda model, k=k: consulting_few(model, k)) for k in MOST}
    found: dict[str, Any] = {**mean_masses(trained, examples), "bleu_whole": whole}
    found |= {f"bleu_{k}": value for k, value in bleu.items()}
    return found | {f"kept_{k}": value / whole if whole else None for k, value in bleu.items()}
