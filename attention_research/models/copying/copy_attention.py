"""Copy attention, Allamanis, Peng & Sutton 2016 (arXiv 1602.03001), section 2.3: `conv_attention` that also copies.

    kappa = softmax(conv(F h_t / |F h_t|, K_copy)),   lambda = max_j sigmoid(conv(F h_t / |F h_t|, K_meta)_j + b)
    p(m_t) = lambda sum_{j: c_j = m_t} kappa_j + (1 - lambda) p_vocab(m_t)

A target that is both in the vocabulary and in the body has both parts. In training, a target that occurs only in the
body may also be generated as the unknown word, multiplied by mu = exp(-10). In decoding, this probability belongs to
the unknown word alone, so that the probabilities sum to 1, as in the released search.
"""

from __future__ import annotations

from jaxtyping import Array

from attention_research.kernels.copying import CopyAttention as Attended
from attention_research.models.copying.conv_attention import ConvAttention
from attention_research.models.copying.extended import extended_log_probabilities, mixture_log_likelihood


class CopyAttention(ConvAttention):
    """`ConvAttention` with copying.

    The aux has the "alignment" alpha, the copy weights kappa as "copy", and lambda as "copy_probability".
    """

    heads = ("attention", "copy", "meta")

    def _values(self, values: dict[str, Array], attended: Attended, source: Array, target: Array) -> dict[str, Array]:
        both = mixture_log_likelihood(
            values["log_likelihood"], attended.copy_probability, attended.copy_weights, source, target,
            self.vocabulary.table.shape[0], unknown_is_generated=True,
        )  # fmt: skip
        return {**values, "log_likelihood": both}

    def _extended(self, log_probabilities: Array, attended: Attended, source: Array) -> Array:
        return extended_log_probabilities(log_probabilities, attended.copy_probability, attended.copy_weights, source)

    def _collected(self, attended: Attended) -> dict[str, Array]:
        return {
            "alignment": attended.weights,
            "copy": attended.copy_weights,
            "copy_probability": attended.copy_probability,
        }
