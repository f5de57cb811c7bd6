"""Attention that maps sets to sets: attention blocks for sets, and slots that compete for their inputs."""

from attention_research.kernels.sets.set_attention import set_attention
from attention_research.kernels.sets.slot_attention import slot_attention
