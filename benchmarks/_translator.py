"""The config of the translator that `benchmarks.translate` trains, as `train --config=benchmarks/_translator.py`."""

from ml_collections import ConfigDict

VARIANTS = {"small": "interface strings Fr-En, 2+2 pre-norm layers of width 128: minutes on one core"}


def get_config(variant: str) -> ConfigDict:
    """The config; rates are the same as the peer's, the schedule is this library's own."""
    del variant
    config = ConfigDict({"max_length": 64, "vocabulary_size": 4000})
    config.task = {"kind": "translation", "label_smoothing": 0.1}
    config.data = {
        "name": "ui_translate/fr-en",
        "source_language": "fr",
        "target_language": "en",
        "batching": {"kind": "buckets", "boundaries": (8, 12, 16, 20, 28, 40, 64)},
    }
    config.model = {
        "kind": "transformer",
        "num_layers": 2,
        "width": 128,
        "num_heads": 4,
        "dropout_rate": 0.1,
        "feed_forward": {"kind": "dense", "hidden_width": 512},
        "encoder": {"unroll": True, "steps": pre_norm("self_attention", "feed_forward"), "final_norm": True},
        "decoder": {
            "unroll": True,
            "steps": pre_norm("self_attention", "cross_attention", "feed_forward"),
            "final_norm": True,
        },
    }
    config.training = {
        "steps": 4000,
        "batch_size": 64,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adamw"},
        "schedule": {"kind": "linear", "warmup_steps": 400},
        "checkpoint_every": 1000,
        "eval_every": 1000,
        "eval_batches": 18,  # the whole validation split
        "log_every": 100,
        "keep": 1,
        "keep_best": 0,
    }
    config.decoding = {"kind": "greedy", "extra_length": 50}
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(LN(x))) for each layer f."""
    return tuple(("norm", layer, "dropout", "residual") for layer in layers)
