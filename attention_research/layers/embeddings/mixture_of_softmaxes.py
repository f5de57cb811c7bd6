"""Mixture of softmaxes, Yang et al. 2018 (arXiv 1711.03953), equation 4: a log-probability matrix of high rank.

    p(w | h) = sum_k pi_k softmax_w(c_k E^T),   pi = softmax(h M),   c_k = tanh(h W_k)

With one softmax of width D, the matrix log p(w | h) of contexts and words has rank at most D + 1. A mixture of
softmaxes does not have this limit. In the run of Narang et al. 2021 (arXiv 2102.11972, Table 1), K = 15, h is the
decoder's output times D^-0.5 (T5's scale), E is the tied table, there are no biases, and there is no scale before E,
because a tanh and the entries of E are of order 1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.precision import einsum
from attention_research.layers.embeddings import distributions
from attention_research.layers.embeddings.t5 import T5Vocabulary, scaled
from attention_research.signatures import Positive

#: Rows of logits per chunk, about as many as for a single softmax. With 15 softmaxes, a chunk has 64 tokens.
ROWS_OF_A_CHUNK = 960


class MixtureOfSoftmaxes(T5Vocabulary):
    """T5's vocabulary with a mixture of K softmaxes.

    Owns the table [V D], `mixture_kernel` M [D K] and `context_kernel` W [K D D], all initialized from N(0, 1). It has
    K D + K D^2 parameters more than `t5`, and computes K products with the table instead of one.

    `num_softmaxes` is K.
    """

    def __init__(self, *, width: Positive, num_softmaxes: Positive = 15, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(width=width, rngs=rngs, **inherited)
        self.mixture_kernel = nnx.Param(jax.random.normal(rngs.params(), (width, num_softmaxes), jnp.float32))
        self.context_kernel = nnx.Param(jax.random.normal(rngs.params(), (num_softmaxes, width, width), jnp.float32))

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """log p over the vocabulary, in float32. The sum over the softmaxes is computed in log space."""
        h, cast = scaled(hidden), lambda parameter: parameter[...].astype(hidden.dtype)
        log_share = jax.nn.log_softmax(einsum("...D,DK->...K", h, cast(self.mixture_kernel)))
        context = jnp.tanh(einsum("...D,KDC->...KC", h, cast(self.context_kernel))).astype(hidden.dtype)
        log_p = jax.nn.log_softmax(einsum("...KC,VC->...KV", context, cast(self.table)))
        return jax.nn.logsumexp(log_share[..., None] + log_p, axis=-2)

    def log_probabilities(self, hidden: Float[Array, "B D"]) -> Float[Array, "B V"]:
        """The log-probabilities of all V tokens, for decoding."""
        return self.logits(hidden)

    def log_probability_parts(self, hidden: Float[Array, "B D"]) -> tuple[list[Float[Array, "B V"]], None]:
        """Returns ([log p over the vocabulary], None), because several softmaxes have no common log Z."""
        return [self.logits(hidden)], None

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood" and "smooth_log_likelihood", [B T]."""
        rows = max(1, ROWS_OF_A_CHUNK // self.mixture_kernel.shape[-1])
        return distributions.log_likelihood(self, hidden, targets, chunk_size=rows)
