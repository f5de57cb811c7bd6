"""The settings of `lectures/image_qa`: a captioning model is trained first, and questions start from its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention_research.studies import Stage, finetune

from ...xu2015.captioners import FEATURES, FREE, RECIPE

#: The name of the training on questions, which is the prefix of its result keys.
QUESTIONS = "questions"
#: The settings of the captioning model at `cpu` and `gpu`.
CAPTIONS: dict[str, Any] = {**RECIPE, **FREE}
PRE_NORM = (("norm", "self_attention", "dropout", "residual"), ("norm", "feed_forward", "dropout", "residual"))
#: The encoder of the questions and the classes of the answers, as in configs/images/questions.py.
MODEL: dict[str, Any] = {
    "kind": "image_question_classifier", "width": 64, "num_layers": 1, "num_heads": 4, "num_classes": 10,
    "readout_width": 128, "dropout_rate": 0.0, "feed_forward": {"kind": "dense", "hidden_width": 256},
    "embedding": {"kind": "learned", "scale": 8.0},
    "encoder": {"kind": "transformer", "steps": PRE_NORM, "final_norm": True},
    "places": {"kind": "learned", "max_length": 36},
}  # fmt: skip
#: Scale -> pictures, held-out pictures, updates, batch size, filters of the features.
SIZES = {"gpu": (60_000, 1000, 20_000, 256, 16), "cpu": (60_000, 1000, 10_000, 64, 16), "smoke": (32, 16, 4, 8, 2)}


def asked(scale: str, reader: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides of the training on questions at a scale, for a model with the given `reader`."""
    pictures, held_out, steps, batch_size, filters = SIZES[scale]
    sizes = {"train_pictures": pictures, "held_out": held_out}
    return {
        "max_length": 10,
        "vocabulary_size": 48,
        "task": {"kind": "classification"},
        "data": {"kind": "collage_questions", "grid": 3, "clutter": 0.0, **sizes},
        "model": {**MODEL, "features": {**FEATURES, "width": filters}, **reader},
        "evaluation": {"kind": "classification", "batch_size": min(batch_size, 64)},
        "training.steps": steps,
        "training.batch_size": batch_size,
        "training.checkpoint_every": steps,
        "training.initial_parts": ("features",),
    }


def questions(reader: Mapping[str, Any]) -> Stage:
    """The stage that trains a model with the given `reader` on questions, from the features of the captioning model."""
    return finetune(QUESTIONS, asked("cpu", reader), at={scale: asked(scale, reader) for scale in SIZES})
