"""Mechanisms without dot products of queries and keys: Synthesizers, lightweight, dynamic and long convolution."""

from attention_research.kernels.no_dot_product.dense_synthesizer import (
    dense_synthesizer_attention,
    dense_synthesizer_scores,
    released_dense_synthesizer_attention,
    released_dense_synthesizer_scores,
)
from attention_research.kernels.no_dot_product.dynamic_convolution import dynamic_convolution, dynamic_convolution_step
from attention_research.kernels.no_dot_product.factorized_dense_synthesizer import (
    factorized_dense_scores,
    factorized_dense_synthesizer_attention,
)
from attention_research.kernels.no_dot_product.factorized_random_synthesizer import (
    factorized_random_scores,
    factorized_random_synthesizer_attention,
    released_factorized_random_scores,
)
from attention_research.kernels.no_dot_product.lightweight_convolution import (
    lightweight_convolution,
    lightweight_convolution_step,
)
from attention_research.kernels.no_dot_product.long_convolution import long_convolution, long_convolution_step
from attention_research.kernels.no_dot_product.mixture_synthesizer import mixture_scores, mixture_synthesizer_attention
from attention_research.kernels.no_dot_product.synthesizer import synthesizer_attention
