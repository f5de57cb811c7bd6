"""Position schemes of a Transformer, as overrides of configs/language_modelling/transformer.py."""

from __future__ import annotations

from typing import Any

CONFIG = "configs/language_modelling/transformer.py"
#: The overrides of a model that reads single characters. The small vocabulary leaves the budget to the layers, and the
#: model is better than a trigram model after minutes.
CHARACTERS: dict[str, Any] = {
    "vocabulary_size": 176,  # 171 kinds of characters occur in the film reviews
    "data.tokenizer": {"kind": "characters"},
    "training.steps": 2000,
    "training.schedule.warmup_steps": 200,
    "training.checkpoint_every": 1000,
}
#: More updates, for masked language models, which predict fewer characters of a row.
LONGER: dict[str, Any] = {**CHARACTERS, "training.steps": 3000, "training.schedule.warmup_steps": 300}
NONE: dict[str, Any] = {"model.positions.kind": "none"}
#: The schemes of Haviv et al. 2022.
SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("no positions", NONE),
    "learned": ("learned", {"model.positions.kind": "learned"}),
    "sinusoidal": ("sinusoidal", {"model.positions.kind": "sinusoidal"}),
    "alibi": ("ALiBi", {**NONE, "model.self_attention": {"kind": "alibi"}}),
}
#: A learned bias for each distance, with which a masked language model learns in minutes: a gradient step on the biases
#: of two neighbours is enough to see them. With positions in the embeddings it stays long at the loss of a unigram.
RELATIVE: dict[str, Any] = {**NONE, "model.self_attention": {"kind": "relative_bias"}}
