"""The T5-style baseline of Narang et al. 2021 (arXiv 2102.11972), Table 1: what its 51 modifications modify.

    attention-research train --config=configs/text_to_text/narang2021.py:smoke --workdir=runs/narang
    attention-research inspect --study=narang2021/table1 --scale=paper --json

variant   parameters  GFLOP/step    steps  time       perplexity
paper    223,043,328     102,229  524,288  not run    exp(1.838) (the paper's final loss on C4)
smoke         12,976        0.04        4  seconds    it learns nothing

The released configs' numbers: the base of T5.1.0 (Raffel et al. 2020, arXiv 1910.10683) with LayerNorm and biases in
the feed-forwards. GFLOP are of rows of 512 and 512 tokens; the paper's have 512 and 114. The text here is a stand-in
until there is span corruption: `paper` is there to be counted.
"""

from ml_collections import ConfigDict

VARIANTS = {"paper": "the published sizes: 223,043,328 parameters", "smoke": "every part, no size"}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"paper": paper, "smoke": smoke}[variant]()


def paper() -> ConfigDict:
    """Section 3.1 and the released `vanilla_transformer_rel_bias_shared`; no dropout in pre-training."""
    config = ConfigDict({"max_length": 512, "vocabulary_size": 32128})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {
        "name": "wmt14_translate/de-en",
        "source_language": "en",
        "target_language": "de",
        "batching": {"kind": "packed"},
    }
    config.model = {
        "kind": "transformer",
        "num_layers": 12,
        "width": 768,
        "num_heads": 12,
        "head_width": 64,
        "dropout_rate": 0.0,
        "self_attention": {"kind": "t5", "use_bias": False, "num_buckets": 32, "max_distance": 128},
        "feed_forward": {"kind": "dense", "hidden_width": 3072, "activation": "relu"},
        "norm": {"kind": "layer_norm"},
        "positions": {"kind": "none"},
        "vocabulary": {"kind": "t5"},
        "initialization": {"kind": "mesh_tensorflow"},
        "encoder": {"steps": pre_norm("self_attention", "feed_forward"), "final_norm": True},
        "decoder": {
            "steps": pre_norm("self_attention", "cross_attention", "feed_forward"),
            "final_norm": True,
            "cross_attention": {"kind": "unscaled", "use_bias": False},
        },
    }
    config.training = {
        "steps": 524_288,
        "batch_size": 128,
        "learning_rate": 0.01,
        "optimizer": {"kind": "adafactor"},
        "schedule": {"kind": "inverse_sqrt", "warmup_steps": 10_000},
        "checkpoint_every": 5000,
        "eval_every": 5000,
        "log_every": 100,
    }
    config.decoding = {"kind": "greedy"}
    return config


def smoke() -> ConfigDict:
    """Small in every direction, primes where they may be."""
    config = paper()
    config.max_length, config.vocabulary_size = 64, 127
    config.data = {
        "name": "bible_translate/fr-en",
        "source_language": "fr",
        "target_language": "en",
        "batching": {"kind": "buckets", "boundaries": (64,)},
    }
    config.model.update(num_layers=2, width=16, num_heads=2, head_width=8)
    config.model.feed_forward.hidden_width = 32
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2)
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(LN(x))) for each layer f, which sees zeros where there is no token."""
    return tuple(("norm", "padding", layer, "dropout", "residual") for layer in layers)
