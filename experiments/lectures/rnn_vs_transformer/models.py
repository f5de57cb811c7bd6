"""The models of `lectures/rnn_vs_transformer`, each as the section of a config, and how they are trained."""

from __future__ import annotations

from typing import Any

from attention_research.config import load

from ...raffel2017.systems import CONFIG

GENERAL = {"kind": "global", "score": {"kind": "general"}}


def recurrent(width: int, cell: str, *, attention: bool, **settings: Any) -> dict[str, Any]:
    """A unidirectional encoder and a decoder with one layer each. The decoder is Luong's with the general score and
    input feeding, or has no context."""
    return {
        "kind": "recurrent",
        "width": width,
        "dropout_rate": 0.1,
        "cell": {"kind": cell},
        "encoder": {"kind": "unidirectional"},
        "decoder": {"kind": "luong", "input_feeding": attention},
        "alignment": GENERAL if attention else {"kind": "none"},
        **settings,
    }


def transformer(width: int, **settings: Any) -> dict[str, Any]:
    """A Transformer with two layers and 4 heads, post-norm unless `settings` change the encoder and the decoder."""
    return {
        "kind": "transformer",
        "num_layers": 2,
        "width": width,
        "num_heads": 4,
        "dropout_rate": 0.1,
        "feed_forward": {"kind": "dense", "hidden_width": 4 * width},
        "encoder": {"unroll": True},
        "decoder": {"unroll": True},
        **settings,
    }


def pre_norm(*layers: str) -> dict[str, Any]:
    """The section of a stack of blocks x + Dropout(f(LN(x))), for each layer f."""
    steps = tuple(("norm", layer, "dropout", "residual") for layer in layers)
    return {"unroll": True, "steps": steps, "final_norm": True}


PRE_NORM: dict[str, Any] = {
    "encoder": pre_norm("self_attention", "feed_forward"),
    "decoder": pre_norm("self_attention", "cross_attention", "feed_forward"),
}

#: The settings of training for a pre-norm Transformer that reads letters.
ADAMW: dict[str, Any] = {
    "learning_rate": 0.002,
    "optimizer": {"kind": "adamw"},
    "schedule": {"kind": "cosine", "warmup_steps": 200},
}
#: The overrides of training for a post-norm Transformer.
NOAM: dict[str, Any] = {
    "training.learning_rate": 0.5,
    "training.optimizer": {"kind": "adam"},
    "training.schedule": {"kind": "noam", "warmup_steps": 200},
}


def post_norm(width: int) -> dict[str, Any]:
    """The overrides of a post-norm Transformer and of its training."""
    return {"model": transformer(width), **NOAM}


def pronouncing(variant: str, model: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    """The sections of a variant of configs/pronunciation/recurrent.py (letters to sounds), with another model (None:
    that of the variant) and other settings of training."""
    given = load(f"{CONFIG}:{variant}", []).given
    return {**given, "model": model or given["model"], "training": {**given["training"], **training}}
