"""Pointer-generator network with coverage, See, Liu & Manning 2017 (arXiv 1704.04368), section 2.

    e_i = v^T tanh(W_h h_i + W_s s_t + w_c c_i + b),   a = softmax(e),   h* = sum_i a_i h_i,   c = sum of a before t
    P_vocab = softmax(V' (V [s_t; h*] + b) + b'),   p_gen = sigmoid(w_h h* + w_s s_t + w_x x_t + b)
    P(w) = p_gen P_vocab(w) + (1 - p_gen) sum_{i: w_i = w} a_i

The following details are from the released code. The h_i are the outputs of one bidirectional layer. The decoder starts
from a linear layer with ReLU of their last states. Its input x_t is a linear layer of the embedding and the previous
context. In e and p_gen, s_t is the whole state of the cell (for an LSTM: cell and output); in P_vocab, it is the output
of the cell.

`coverage` adds c to the scores and returns the loss sum_i min(a_i, c_i) as aux["decoder"]["coverage_loss"], which the
task `coverage` adds to its loss. The paper uses both only in the last updates. If `copies` is false, there is no p_gen;
this is the baseline "seq-to-seq + attn" of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.kernels.copying import coverage_loss, generation_probability
from attention_research.kernels.scores import attend, projected_additive_scores
from attention_research.layers.dropout import dropout
from attention_research.layers.linear import Linear
from attention_research.layers.recurrent.scan import run
from attention_research.models.copying.extended import extended_log_probabilities, mixture_log_likelihood, words
from attention_research.models.copying.vocabularies import UntiedVocabulary
from attention_research.models.sequences import Sequence, sequence, shift_right
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD

State = dict[str, Any]


class Step(NamedTuple):
    """The outputs of a step: the layer before the vocabulary [B H], a [B S], 1 - p_gen [B], the coverage loss [B]."""

    hidden: Array
    weights: Array
    copy_probability: Array
    coverage_loss: Array


class PointerGenerator(nnx.Module):
    """Maps source words to target words. `width` is the width of the embeddings; the cell sets the width of the states.

    The paper uses embeddings of width 128, states of width 256, and no dropout. The aux has the "alignment" a and the
    "coverage_loss"; with `copies` also the "copy_probability" 1 - p_gen, and a again as "copy".
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        copies: bool = True,
        coverage: bool = False,
        dropout_rate: Rate = 0.0,
        dtype: Literal["float32", "bfloat16"] = "float32",
        cell: Child["recurrent_cell"] = "lstm",
        rngs: nnx.Rngs,
    ):
        self.max_length, self.dropout_rate = max_length, dropout_rate
        self.forward_cell, self.backward_cell = (cell(input_width=width, rngs=rngs) for _ in range(2))
        self.cell = cell(input_width=width, rngs=rngs)
        H = self.cell.width
        #: The parts of a state, in the order in which they are concatenated.
        self.parts = tuple(sorted(jax.eval_shape(lambda: self.cell.initial(1, jnp.float32))))
        self.vocabulary = UntiedVocabulary(
            vocabulary_size=vocabulary_size, width=width, output_width=H, dtype=dtype, rngs=rngs
        )
        self.reduce = nnx.List([Linear(2 * H, H, rngs=rngs) for _ in self.parts])
        self.merge = Linear(width + 2 * H, width, rngs=rngs)
        self.query = Linear(H * len(self.parts), 2 * H, rngs=rngs)
        self.keys = Linear(2 * H, 2 * H, use_bias=False, rngs=rngs)
        self.score = _vector(2 * H, rngs)
        self.coverage_weight = _vector(2 * H, rngs) if coverage else None
        self.output = Linear(3 * H, H, rngs=rngs)
        self.copies = copies
        if copies:
            self.generate_context, self.generate_state, self.generate_input = (
                _vector(size, rngs) for size in (2 * H, H * len(self.parts), width)
            )
            self.generate_bias = nnx.Param(jnp.zeros((), jnp.float32))

    # The model protocol

    def encode(self, source: Sequence, *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """The memory: h [B S 2H], W_h h, the initial state of the decoder, and the source."""
        tokens = source["tokens"]
        embedded = dropout(self.vocabulary.embed(tokens), self.dropout_rate, key)
        real, batch = tokens != PAD, tokens.shape[0]
        outputs, lasts = [], []
        for cell, reverse in ((self.forward_cell, False), (self.backward_cell, True)):
            output, last = run(cell, embedded, cell.initial(batch, embedded.dtype), real, reverse=reverse)
            outputs.append(output)
            lasts.append(last)
        hidden = jnp.concatenate(outputs, axis=-1)
        first = {
            part: jax.nn.relu(reduce(jnp.concatenate([last[part] for last in lasts], axis=-1)))
            for part, reduce in zip(self.parts, self.reduce, strict=True)
        }
        return {"hidden": hidden, "keys": self.keys(hidden), "first": first, "source": tokens}

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"} per target token, aux of the decoder [B T ...])."""
        keys = (None, None) if key is None else jax.random.split(key)
        memory = self.encode(sequence(batch, "source"), key=keys[0])
        target = sequence(batch, "target")
        fed = dropout(self.vocabulary.embed(shift_right(target)), self.dropout_rate, keys[1])
        step = lambda carry, x: self._step(memory, carry, x)
        _, steps = jax.lax.scan(step, self._first(memory), fed.swapaxes(0, 1))
        steps = Step(*(x.swapaxes(0, 1) for x in steps))
        values = self.vocabulary.log_likelihood(steps.hidden, target["tokens"])
        if self.copies:
            values["log_likelihood"] = mixture_log_likelihood(
                values["log_likelihood"], steps.copy_probability, steps.weights, memory["source"], target["tokens"],
                self.vocabulary.table.shape[0], unknown_is_generated=False,
            )  # fmt: skip
        return {**values, "mask": target["tokens"] != PAD}, {"encoder": {}, "decoder": self._collected(steps)}

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The cache before the first token. `length` is unused."""
        del length
        kept = {name: memory[name] for name in ("hidden", "keys", "source")}
        return {"memory": kept, "carry": self._first(memory)}

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B X"], dict[str, Any]]:
        """(cache, log p of the next token, collected [B ...]), given the previous token (BOS first)."""
        memory = cache["memory"]
        carry, step = self._step(memory, cache["carry"], self.vocabulary.embed(tokens))
        log_probabilities = self.vocabulary.log_probabilities(step.hidden)
        if self.copies:
            log_probabilities = extended_log_probabilities(
                log_probabilities, step.copy_probability, step.weights, memory["source"]
            )
        return {"memory": memory, "carry": carry}, log_probabilities, {"decoder": self._collected(step)}

    # Parts

    def _first(self, memory: Mapping[str, Any]) -> dict[str, Any]:
        """The initial values that a step carries over to the next: state, context, coverage."""
        hidden = memory["hidden"]
        covered = jnp.zeros(hidden.shape[:2], jnp.float32)
        return {"state": dict(memory["first"]), "context": jnp.zeros_like(hidden[:, 0]), "coverage": covered}

    def _step(
        self, memory: Mapping[str, Any], carry: dict[str, Any], embedded: Float[Array, "B D"]
    ) -> tuple[dict[str, Any], Step]:
        x = self.merge(jnp.concatenate([embedded, carry["context"]], axis=-1))
        state = self.cell(x, carry["state"])
        whole = jnp.concatenate([state[part] for part in self.parts], axis=-1)
        keys, covered = memory["keys"], carry["coverage"]
        if self.coverage_weight is not None:
            weight = self.coverage_weight[...].astype(keys.dtype)
            keys = keys + covered[..., None].astype(keys.dtype) * weight
        scores = projected_additive_scores(self.query(whole)[:, None], keys, self.score[...])
        context, weights = attend(scores, memory["hidden"], words(memory["source"]))
        context, weights = context[:, 0], weights[:, 0]
        probability = jnp.zeros(x.shape[:1], jnp.float32)
        if self.copies:
            vectors = (self.generate_context, self.generate_state, self.generate_input)
            inputs = (value[:, None] for value in (context, whole, x))
            weighted = (vector[...] for vector in vectors)
            given = (*inputs, *weighted, self.generate_bias[...])
            probability = 1.0 - generation_probability(*given)[:, 0]
        step = Step(
            hidden=self.output(jnp.concatenate([state["hidden"], context], axis=-1)),
            weights=weights,
            copy_probability=probability,
            coverage_loss=coverage_loss(weights[:, None], covered[:, None])[:, 0],
        )
        return {"state": state, "context": context, "coverage": covered + weights}, step

    def _collected(self, step: Step) -> dict[str, Array]:
        collected = {"alignment": step.weights, "coverage_loss": step.coverage_loss}
        if self.copies:
            collected |= {"copy": step.weights, "copy_probability": step.copy_probability}
        return collected


def _vector(size: int, rngs: nnx.Rngs) -> nnx.Param:
    return nnx.Param(jax.random.normal(rngs.params(), (size,), jnp.float32) * size**-0.5)
