"""Greedy decoding, sampling and beam search for any model with `encode`, `start` and `step`."""

from attention_research.decoding.beam import BeamSearch
from attention_research.decoding.greedy import Greedy
from attention_research.decoding.hugging_face import HuggingFaceBeamSearch
from attention_research.decoding.hypotheses import Decoded
from attention_research.decoding.sampling import Sampling
from attention_research.decoding.shrinking_beam import ShrinkingBeamSearch

__all__ = ["BeamSearch", "Decoded", "Greedy", "HuggingFaceBeamSearch", "Sampling", "ShrinkingBeamSearch"]
