"""Alignment scores of queries and keys, and the attention layer that uses them."""

from attention_research.kernels.scores.additive import additive_scores, projected_additive_scores
from attention_research.kernels.scores.attend import attend
from attention_research.kernels.scores.concat import concat_scores
from attention_research.kernels.scores.cosine import cosine_scores
from attention_research.kernels.scores.dot import dot_scores
from attention_research.kernels.scores.general import general_scores
from attention_research.kernels.scores.location import location_scores, location_weights
from attention_research.kernels.scores.reduced_rank import reduced_rank_scores
from attention_research.kernels.scores.scaled_dot import scaled_dot_scores
