"""Copy mechanisms, which output words of the source, and coverage, which tracks past attention."""

from attention_research.kernels.copying.convolutional_copy import (
    CopyAttention,
    convolutional_copy_attention,
    convolutional_features,
)
from attention_research.kernels.copying.copy_distribution import copy_distribution
from attention_research.kernels.copying.copy_mixture import copy_mixture_log_probability
from attention_research.kernels.copying.coverage import coverage_attention, coverage_loss, coverage_vectors
from attention_research.kernels.copying.pointer_generator import generation_probability, pointer_generator
