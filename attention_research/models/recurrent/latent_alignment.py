"""Exact hard attention, Wu, Shapiro & Cotterell 2018 (arXiv 1808.10024); Wu & Cotterell 2019 (arXiv 1905.06319):
p(y_i | y_<i, x) = sum_j p(a_i = j | y_<i, x) p(y_i | a_i = j, y_<i, x).

Each output reads one source position, which is a latent variable. Soft attention averages the source states; here the
probabilities of the output are averaged, so that the likelihood is exact and needs no sampling. With s_i the state of
the decoder and h_j that of the encoder,

    e_ij = score(s_i, h_j),   p(y_i | a_i = j) = softmax(W tanh(S [s_i; h_j]) + b)

The decoder reads the previous output and no source state. With monotonic positions, the distribution of a_{i-1} is
updated by the output y_{i-1} before a_i is predicted: this is the forward algorithm of a hidden Markov model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.layers.alignment.scores.score import Score
from attention_research.layers.dropout import dropout
from attention_research.layers.initialization.as_built import AsBuilt
from attention_research.layers.linear import Linear
from attention_research.models.recurrent.fixed_vector import FixedVectorDecoder
from attention_research.models.recurrent.seq2seq import RecurrentSeq2Seq
from attention_research.models.sequences import sequence, shift_right
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD

Arrays = dict[str, Any]


class LatentAlignment(RecurrentSeq2Seq):
    """A translator whose alignment is summed out. `transition` is the distribution of the positions.

    The decoder has `num_layers` recurrent layers and starts from `start`. All source positions, target positions and
    tokens are kept at once, so the vocabulary should be small. Other settings are those of the model `recurrent`.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        num_layers: Positive = 1,
        embedding_width: Positive | None = None,
        dropout_rate: Rate = 0.0,
        dtype: Literal["float32", "bfloat16"] = "float32",
        cell: Child["recurrent_cell"] = "lstm",
        score: Child["score"] = "general",
        transition: Child["alignment_transition"] = "independent",
        start: Child["decoder_start"] = "projected",
        vocabulary: Child["recurrent_vocabulary"] = "source_and_target",
        encoder: Child["recurrent_encoder"] = "bidirectional",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        layers = {"num_layers": num_layers, "width": width, "dropout_rate": dropout_rate, "cell": cell, "start": start}
        super().__init__(
            vocabulary_size=vocabulary_size, max_length=max_length, width=width, embedding_width=embedding_width,
            dtype=dtype, vocabulary=vocabulary, encoder=encoder, decoder=partial(FixedVectorDecoder, **layers),
            initialization=AsBuilt, rngs=rngs,
        )  # fmt: skip
        keys = self.encoder.output_width
        self.dropout_rate = dropout_rate
        self.score: Score = score(query_width=width, key_width=keys, rngs=rngs)
        self.transition = transition()
        self.from_state = Linear(width, width, rngs=rngs)
        self.from_source = Linear(keys, width, use_bias=False, rngs=rngs)
        initialization()(self, rngs)

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"}, [B T] each, {"decoder": {"alignment": [B T S]}}).

        The alignment is the distribution of each position before the output is known.
        """
        keys = (None, None, None) if key is None else jax.random.split(key, 3)
        memory = self.encode(sequence(batch, "source"), key=keys[0])
        target = sequence(batch, "target")
        hidden, _ = self.decoder(self.vocabulary.target(shift_right(target)), memory, key=keys[1])
        fixed = self._fixed(memory)
        log_p = self._log_probabilities(hidden, fixed, keys[2])
        of_target = jnp.take_along_axis(log_p, target["tokens"][:, :, None, None], axis=-1)[..., 0]

        def advance(previous: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
            scores, log_p = given
            positions = self.transition(scores, previous, fixed["real"])
            return jax.nn.softmax(_log(positions) + log_p), positions

        steps = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (self.score(hidden, fixed["keys"]), of_target))
        _, positions = jax.lax.scan(advance, _first(fixed["real"]), steps)
        positions = jnp.swapaxes(positions, 0, 1)
        mixed = _mixture(positions, log_p)
        values = {
            "log_likelihood": jnp.take_along_axis(mixed, target["tokens"][..., None], axis=-1)[..., 0],
            "smooth_log_likelihood": jnp.mean(mixed, axis=-1),
        }
        return {**values, "mask": target["tokens"] != PAD}, {"decoder": {"alignment": positions}}

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The cache before the first token: the decoder's, the prepared source, and the position before the first."""
        del length
        real = memory["real"]
        rows, places = real.shape
        unknown = jnp.zeros((rows, places, self.vocabulary.target_table.shape[0]), jnp.float32)
        state = {"positions": _first(real), "log_p": unknown}
        return {"decoder": self.decoder.start(memory), "fixed": self._fixed(memory), "state": state}

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, {"decoder": {"alignment": [B S]}}), given the previous token (BOS first)."""
        state, fixed = cache["state"], cache["fixed"]
        chosen = jnp.take_along_axis(state["log_p"], tokens[:, None, None], axis=-1)[..., 0]
        previous = jax.nn.softmax(_log(state["positions"]) + chosen)
        hidden, decoder, _ = self.decoder.step(self.vocabulary.target(tokens), cache["decoder"])
        positions = self.transition(self.score(hidden[:, None], fixed["keys"])[:, 0], previous, fixed["real"])
        log_p = self._log_probabilities(hidden[:, None], fixed, None)
        after = {**cache, "decoder": decoder, "state": {"positions": positions, "log_p": log_p[:, 0]}}
        return after, _mixture(positions[:, None], log_p)[:, 0], {"decoder": {"alignment": positions}}

    def _fixed(self, memory: Mapping[str, Any]) -> Arrays:
        """What all steps read: keys of the score, the source's part of the output layer, and the mask."""
        hidden = memory["hidden"]
        return {"keys": self.score.prepare(hidden), "values": self.from_source(hidden), "real": memory["real"]}

    def _log_probabilities(self, hidden: Array, fixed: Arrays, key: Any) -> Float[Array, "B T S V"]:
        """log p(y_i | a_i = j) of all tokens."""
        both = jnp.tanh(self.from_state(hidden)[:, :, None] + fixed["values"][:, None])
        return jax.nn.log_softmax(self.vocabulary.logits(dropout(both, self.dropout_rate, key)))


def _log(p: Array) -> Array:
    """log p; of 0, the logarithm of the smallest number."""
    return jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))


def _first(real: Array) -> Float[Array, "B S"]:
    """All weight on position 0."""
    return jnp.zeros(real.shape, jnp.float32).at[:, 0].set(1.0)


def _mixture(positions: Float[Array, "B T S"], log_p: Float[Array, "B T S V"]) -> Float[Array, "B T V"]:
    """log sum_j p(a_i = j) p(y_i | a_i = j) of all tokens."""
    return jax.nn.logsumexp(_log(positions)[..., None] + log_p, axis=2)
