"""Position information for attention: encodings, rotations, biases, and ways to combine them with inputs."""

from attention_research.kernels.positions.added import add_positions
from attention_research.kernels.positions.alibi import alibi_bias, alibi_distance_bias, alibi_slopes
from attention_research.kernels.positions.clipped import clipped_bias, clipped_distance_bias
from attention_research.kernels.positions.concatenated import concatenate_positions, project_concatenated
from attention_research.kernels.positions.contextual import contextual_attention, contextual_bias
from attention_research.kernels.positions.fire import fire_bias
from attention_research.kernels.positions.in_attention import positional_attention
from attention_research.kernels.positions.kerple import kerple_bias, kerple_distance_bias
from attention_research.kernels.positions.learned import learned_positions
from attention_research.kernels.positions.none import no_positions
from attention_research.kernels.positions.relative import relative_attention, relative_weights
from attention_research.kernels.positions.rotary import rotary
from attention_research.kernels.positions.rotary_scaling import (
    dynamic_ntk_frequencies,
    interpolated_frequencies,
    llama3_frequencies,
    longrope_frequencies,
    longrope_magnitude,
    ntk_frequencies,
    yarn_frequencies,
    yarn_magnitude,
    yarn_rotary,
)
from attention_research.kernels.positions.sinusoidal import sinusoidal_at, sinusoidal_positions
from attention_research.kernels.positions.structural import (
    structural_attention,
    structural_depths,
    structural_distances,
    structural_encoding,
)
from attention_research.kernels.positions.t5_bias import t5_buckets, t5_distance_bias, t5_relative_bias
from attention_research.kernels.positions.transformer_xl import (
    extend_with_memory,
    next_memory,
    transformer_xl_attention,
    transformer_xl_weights,
)
from attention_research.kernels.positions.xpos import xpos
