"""The captioning models of the studies in this folder, as overrides of configs/images/captions.py, and their stages."""

from __future__ import annotations

from typing import Any

from attention_research.studies import evaluate, measure, train

from .caption_measures import measure_captions, measure_strips
from .table1_measures import measure_noise

CONFIG = "configs/images/captions.py"
LARGE = ("cpu", "gpu")
#: The settings of `cpu` and `gpu`. With the 20,000 pictures, 8 filters and 1,500 updates of the config, soft attention
#: named a fifth of the objects.
RECIPE: dict[str, Any] = {
    "model.dropout_rate": 0.0, "model.features.width": 16, "data.clutter": 0.0, "data.train_examples": 60_000,
    "training.steps": 4000, "training.checkpoint_every": 4000,
}  # fmt: skip
#: The settings of the measures at `cpu`.
SETTINGS = {"examples": 500, "gradients": 24}
MEASURED = (train, evaluate, measure(measure_captions), measure(measure_noise))
#: The rows of `xu2015/figures`, which have the same trials in `xu2015/table1`, and their stages.
DRAWN = ("soft", "stochastic", "hard")
LOOKED = (*MEASURED, measure(measure_strips))
FREE: dict[str, Any] = {"task.doubly_stochastic": 0.0}
#: One vector of the image, the mean of its cells, at every word or only before the first word.
EVERY: dict[str, Any] = {**FREE, "model.alignment": {"kind": "last_state"}}
ONCE: dict[str, Any] = {**FREE, "model.decoder": {"kind": "fixed_vector", "start": {"kind": "projected"}}}
HARD: dict[str, Any] = {**FREE, "model.alignment": {"kind": "hard"}}
SCA: dict[str, Any] = {**FREE, "model.alignment": {"kind": "sca", "attention_width": 128}}
FEATURES = {"kind": "cnn", "width": 16, "num_layers": 4, "halvings": 3}
CELLS = 36


def transformer() -> dict[str, Any]:
    """A pre-norm Transformer with two encoder and two decoder layers over the same map, with positions of cells."""
    norm_first = lambda *names: tuple(("norm", name, "dropout", "residual") for name in names)
    model = {
        "kind": "transformer_captioner", "width": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0,
        "feed_forward": {"hidden_width": 256}, "features": FEATURES,
        "encoder": {"steps": norm_first("self_attention", "feed_forward"), "final_norm": True,
                    "positions": {"kind": "sinusoidal", "max_length": CELLS}},
        "decoder": {"steps": norm_first("self_attention", "cross_attention", "feed_forward"), "final_norm": True},
    }  # fmt: skip
    return {**FREE, "model": model}


def captioners() -> dict[str, tuple[str, dict[str, Any]]]:
    """Maps each row to its name and overrides."""
    return {
        "once": ("one vector, before the first word", ONCE),
        "every_word": ("one vector, at every word", EVERY),
        "soft": ("soft attention", FREE),
        "stochastic": ("soft, with the doubly stochastic term", {"task.doubly_stochastic": 1.0}),
        "hard": ("hard attention", HARD),
        "sca": ("channels and places (SCA)", SCA),
        "transformer": ("Transformer", transformer()),
    }


def frozen() -> dict[str, Any]:
    """Soft attention over frozen features."""
    return {**FREE, "model.features.frozen": True}


def pretraining() -> dict[str, Any]:
    """A classifier of one digit in clutter, with the features of the captioning model, on images of the same size."""
    return {
        "task": {"kind": "classification"},
        "data": {"kind": "placed_digits", "grid": 3, "train_examples": 20_000},
        "model": {"kind": "image_classifier", "width": 16, "num_classes": 10, "features": FEATURES},
        "evaluation": {"kind": "classification", "batch_size": 64, "examples": 500},
    }


def started() -> dict[str, Any]:
    """The captioning model with soft attention over the frozen features of a classifier.

    It sets everything that `pretraining` changes.
    """
    return {
        "task": {"kind": "captioning"},
        "data": {"kind": "collages", "grid": 3, "min_objects": 1, "max_objects": 4, "clutter": 0.0,
                 "train_examples": 60_000},
        "model": {
            "kind": "recurrent_captioner", "width": 128, "embedding_width": 64, "dropout_rate": 0.0,
            "alignment": {"kind": "global", "score": {"kind": "additive"}}, "features": {**FEATURES, "frozen": True},
        },
        "evaluation": {"kind": "captions", "batch_size": 64, "examples": 500},
        "training.initial_parts": ("features",),
    }  # fmt: skip
