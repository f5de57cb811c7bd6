"""LSTM whose forget gate is open at first, Jozefowicz et al. 2015 (ICML 2015, section 4): its bias begins at 1."""

from __future__ import annotations

from typing import Any

from attention_research.layers.recurrent.lstm import LSTMCell


class ForgetBiasLSTMCell(LSTMCell):
    """An LSTM cell whose bias of the forget gate begins at `forget_bias`, so that its state decays slowly at first.

    >>> from flax import nnx
    >>> cell = ForgetBiasLSTMCell(width=2, input_width=3, rngs=nnx.Rngs(0))
    >>> cell.bias[...].tolist()  # in the order i, f, g, o
    [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, *, forget_bias: float = 1.0, **inherited: Any):
        super().__init__(**inherited)
        self.bias[...] = self.bias[...].at[self.width : 2 * self.width].set(forget_bias)
