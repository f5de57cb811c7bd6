"""Greedy decoding and beam search over the model protocol; no model is known here."""

from attention_research.decoding.beam import BeamSearch
from attention_research.decoding.greedy import Greedy
from attention_research.decoding.hypotheses import Decoded

__all__ = ["BeamSearch", "Decoded", "Greedy"]
