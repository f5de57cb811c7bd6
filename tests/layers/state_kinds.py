"""The kinds of self-attention with a state, with small settings, for all tests that walk them."""

from __future__ import annotations

#: Kind -> its settings in a model of width 12 with 3 heads.
STATE_KINDS: dict[str, dict] = {
    "retnet": {},
    "gla": {"decay_rank": 5},
    "mamba2": {"key_head_width": 5},
    "deltanet": {"negative_eigenvalues": True},
    "gated_deltanet": {"convolution_width": 3},
    "kda": {"rank": 5},
    "lightning": {},
    "mlstm": {},
    "rwkv7": {"rank": 5, "gate_rank": 7, "value_rank": 3},
    "based": {"key_head_width": 3},
    "linear": {},
    "performer": {"num_features": 7},
    "log_linear": {"key_head_width": 5},
}
#: The kinds in the fast tests. The others are slow.
FAST = ("gated_deltanet",)
