"""Attention with a matrix state of constant size (linear attention, state space models and delta rules), or with one
for each level of a tree."""

from attention_research.kernels.state.delta import delta_attention, delta_step
from attention_research.kernels.state.log_linear import (
    LogLinearState,
    log_linear_attention,
    log_linear_step,
    no_log_linear_state,
)
from attention_research.kernels.state.normalized import (
    NormalizedState,
    no_normalized_state,
    normalized_attention,
    normalized_step,
)
from attention_research.kernels.state.selective_scan import selective_scan, selective_step
from attention_research.kernels.state.state_attention import state_attention, state_step
from attention_research.kernels.state.taylor import taylor_features
