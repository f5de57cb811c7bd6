"""The T5-style baseline of Narang et al. 2021 (arXiv 2102.11972), Table 1, to which 51 modifications are made.

    attention-research train --config=configs/text_to_text/narang2021.py:cpu --workdir=runs/narang
    attention-research inspect --study=narang2021/table1 --scale=paper --json

variant   parameters  GFLOP/step    steps  time       perplexity
paper    223,043,328      55,860  524,288  not run    exp(1.838) (the final loss on C4 in the paper)
gpu       48,298,496      12,856   16,384  not run    not recorded (no GPU was available)
cpu        1,059,072         8.3     1200  6 minutes  recorded in experiments/narang2021 (one core)
smoke         14,320        0.02        8  seconds    it learns nothing

The settings are those of the released configs: the base of T5.1.0 (Raffel et al. 2020, arXiv 1910.10683) with LayerNorm
and with biases in the feed-forward layers, pre-trained by span corruption: 568 tokens become 512 inputs and 114
targets, which the GFLOP of `paper` count. `cpu` has an eighth of the width and a third of the depth.
It reads film reviews by character.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "paper": "the published sizes: 223,043,328 parameters",
    "gpu": "an hour on one GPU",
    "cpu": "minutes on two cores",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"paper": paper, "gpu": gpu, "cpu": cpu, "smoke": smoke}[variant]()


def paper() -> ConfigDict:
    """Section 3.1 and the released `vanilla_transformer_rel_bias_shared`; no dropout in pre-training."""
    config = ConfigDict({"max_length": 512, "vocabulary_size": 32128})
    config.task = {"kind": "text_to_text"}
    config.data = {"kind": "text", "name": "c4/en", "sentinels": 100}
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
        "checkpoint_every": 4096,
        "eval_every": 4096,
        "log_every": 100,
    }
    config.decoding = {"kind": "greedy"}
    config.evaluation = {"kind": "perplexity", "split": "validation"}
    return config


def gpu() -> ConfigDict:
    """Half the depth and two thirds of the width, on film reviews; in bfloat16."""
    config = paper()
    config.vocabulary_size = 8192
    config.data.name = "reviews/imdb"
    config.model.update(num_layers=6, width=512, num_heads=8, head_width=64, dtype="bfloat16")
    config.model.feed_forward.hidden_width = 2048
    config.training.update(steps=16_384, checkpoint_every=2048, eval_every=2048, log_every=64, eval_batches=4)
    config.training.schedule.warmup_steps = 1000
    config.evaluation.examples = 512
    return config


def cpu() -> ConfigDict:
    """An eighth of the width and a third of the depth. Half of the characters are removed, in spans of 12.

    236 characters of a review become 128 inputs and 128 targets. With the published share of 15 % in spans of 3, the
    loss stays that of a trigram model for 2,000 steps, because little of the input is needed to guess three characters.
    """
    config = paper()
    config.max_length, config.vocabulary_size = 128, 192  # 4 special tokens, 171 kinds of characters, 17 sentinels
    config.data = {
        "kind": "text",
        "name": "reviews/imdb",
        "sentinels": 17,
        "objective": {"kind": "span_corruption", "noise_density": 0.5, "mean_span_length": 12.0},
        "tokenizer": {"kind": "characters", "order": "frequency"},  # the adaptive rows need this order
    }
    config.model.update(num_layers=4, width=96, num_heads=6, head_width=16)
    config.model.feed_forward.hidden_width = 384
    config.training.update(steps=1200, batch_size=8, learning_rate=0.03)
    config.training.update(checkpoint_every=600, eval_every=150, log_every=50, eval_batches=32)
    config.training.schedule.warmup_steps = 120
    config.evaluation.examples = 512
    return config


def smoke() -> ConfigDict:
    """Small in every dimension, with primes where possible."""
    config = paper()
    config.max_length, config.vocabulary_size = 64, 211
    config.data = {"kind": "text", "name": "reviews/rotten_tomatoes", "sentinels": 16}
    config.model.update(num_layers=2, width=16, num_heads=2, head_width=8)
    config.model.feed_forward.hidden_width = 32
    config.training.update(
        steps=8, batch_size=4, checkpoint_every=8, eval_every=1, log_every=2, eval_batches=1, keep_best=0
    )
    config.evaluation.update(examples=16, batch_size=16)
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(LN(x))) for each layer f; the input of f is zero at padding positions."""
    return tuple(("norm", "padding", layer, "dropout", "residual") for layer in layers)
