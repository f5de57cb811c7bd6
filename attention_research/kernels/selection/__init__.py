"""Attention that selects positions: hard, local and monotonic attention, and gradient estimators for training."""

from attention_research.kernels.selection.gumbel import gumbel_attention, gumbel_softmax
from attention_research.kernels.selection.hard import hard_attention, semi_sampled_attention
from attention_research.kernels.selection.latent_monotonic import latent_monotonic
from attention_research.kernels.selection.local import local_weights, local_window, predicted_centers
from attention_research.kernels.selection.mocha import mocha_weights
from attention_research.kernels.selection.monotonic import monotonic_alignment
from attention_research.kernels.selection.monotonic_decode import hard_monotonic_decode
from attention_research.kernels.selection.monotonic_energy import choosing_probability, monotonic_energy
from attention_research.kernels.selection.reinforce import (
    attention_entropy,
    cost_to_go,
    moving_average_baseline,
    reinforce_surrogate,
)
