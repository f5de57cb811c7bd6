"""Recurrent networks: cells, which are pure functions of input, state and weights, and the scan over time."""

from attention_research.kernels.recurrent.gru import gru_cell
from attention_research.kernels.recurrent.gru_reset_before import gru_reset_before_cell
from attention_research.kernels.recurrent.lstm import lstm_cell
from attention_research.kernels.recurrent.recurrence import recurrence
from attention_research.kernels.recurrent.vanilla import vanilla_cell
