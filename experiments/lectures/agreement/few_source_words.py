"""How much of the source a translator consults for one target word: attention on the largest few weights, and without
the others.

The mass on the k largest weights of a step is their sum. Then every weight but the k largest of a step is set to 0
while the model translates, the k staying as they are: they are not made to sum to 1. RNNsearch has one weight a source
token and step. A Transformer has one a layer and head: there the k tokens of a layer are those with the largest mean
over its heads, the others are hidden from all heads, and masses are means over layers. The end of the sentence is a
token, too.
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
    """Where the `most` largest of each row are; of equals the first."""
    _, places = jax.lax.top_k(weights, min(most, weights.shape[-1]))
    return jnp.any(jax.nn.one_hot(places, weights.shape[-1], dtype=bool), axis=-2)


class FewAlignment(GlobalAlignment):
    """Global attention whose weights but the `most` largest are 0."""

    most: int

    def __call__(
        self, query: Float[Array, "B T Dq"], fixed: Arrays, state: Arrays, *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T C"], Float[Array, "B T S"], Arrays]:
        """The average under what is left of the weights, and these."""
        _, weights, state = super().__call__(query, fixed, state, key=key)
        left = jnp.where(largest(weights, self.most), weights, 0.0)
        return average(left, fixed["values"]), left, state


class FewAttention(StandardAttention):
    """Standard attention whose weights but those of the `most` keys with the largest mean over heads are 0."""

    most: int

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """The average under what is left of the weights, and these."""
        weights = attention_weights(query, key, mask=where.mask, is_causal=where.is_causal)
        left = jnp.where(largest(weights.mean(axis=1, keepdims=True), self.most), weights, 0.0)
        return jnp.einsum("BNTS,BSNH->BTNH", left.astype(value.dtype), value), left


def consulting_few(model: Any, most: int) -> Any:
    """The model, its attention to the source hidden but for the `most` largest weights. It is changed in place.

    Raises TypeError where that attention is of another kind than global alignment or standard attention.
    """
    if hasattr(model.decoder, "alignment"):
        model.decoder.alignment = _as(FewAlignment, model.decoder.alignment, most)
        return model
    for blocks in model.decoder.stack.segments:
        for name in [name for name in vars(blocks) if name.startswith("cross_attention")]:
            setattr(blocks, name, _as(FewAttention, getattr(blocks, name), most))
    return model


def _as(kind: type, module: nnx.Module, most: int) -> Any:
    """A module of that kind with another's parameters and settings."""
    (base,) = kind.__bases__
    if type(module) is not base:
        raise TypeError(f"{type(module).__name__} is not {base.__name__}: which of its weights to leave is not known")
    made: Any = object.__new__(kind)
    vars(made).update({**vars(module), "most": most})
    return made


def source_weights(collected: dict[str, Any]) -> Float[Array, "L B T S"]:
    """Weights over source tokens, a layer each, from what a forward pass collects; of a Transformer the heads' mean."""
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
    """The sum of the k largest weights of each step for each k of `MOST`, a mean over layers."""
    found, _ = jax.lax.top_k(weights, max(MOST))
    return jnp.cumsum(found, axis=-1).mean(axis=0)[..., jnp.asarray(MOST) - 1]


def mean_masses(trained: Trained, examples: int) -> dict[str, float]:
    """ "mass_1" and so on over the target tokens of test sentences, the decoder reading the references; "even_1" is
    what weights that are all alike have."""

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
    """Of a trained run: `mean_masses`; of test sentences that are no longer than those it was trained on "bleu_whole",
    and for each k "bleu_k", with all but the k largest weights at 0, and "kept_k", that as a share of the whole (None
    where that is 0)."""
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
