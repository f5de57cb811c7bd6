"""Position schemes of a Transformer, as overrides of configs/language_modelling/transformer.py."""

from __future__ import annotations

from typing import Any

CONFIG = "configs/language_modelling/transformer.py"
#: The running text of film reviews. Its rows do not end with the end of sentence: a model that has learned where that
#: comes predicts it at all later positions.
RUNNING: dict[str, Any] = {"kind": "running_text", "name": "reviews/imdb", "context": 0}
_RECIPE: dict[str, Any] = {
    "training.steps": 2000,
    "training.schedule.warmup_steps": 200,
    "training.checkpoint_every": 1000,
}
#: The overrides of a causal model that reads the running text of film reviews by character. The small vocabulary leaves
#: the budget to the layers, and the model is better than a trigram model after minutes.
CHARACTERS: dict[str, Any] = {
    "vocabulary_size": 179,  # 175 kinds of characters occur in the film reviews
    "data": {**RUNNING, "tokenizer": {"kind": "characters"}},
    **_RECIPE,
}
#: The overrides of a masked model that reads the same reviews by character.
MASKED_CHARACTERS: dict[str, Any] = {
    "vocabulary_size": 176,  # 171 of them in the training split
    "data": {
        "kind": "text",
        "name": "reviews/imdb",
        "sentinels": 1,
        "objective": {"kind": "masked_tokens"},
        "tokenizer": {"kind": "characters"},
    },
    **_RECIPE,
}
#: More updates, for a masked model predicts fewer characters of a row.
LONGER: dict[str, Any] = {**MASKED_CHARACTERS, "training.steps": 3000, "training.schedule.warmup_steps": 300}
#: Three seeds together train a quarter faster on a CPU if the layers are not scanned.
UNROLLED: dict[str, Any] = {"model.decoder.unroll": True}
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
