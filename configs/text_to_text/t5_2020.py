"""The baseline of T5 (Raffel et al. 2020, arXiv 1910.10683, section 3.1), for studies of objective and architecture.

    attention-research train --config=configs/text_to_text/t5_2020.py:cpu --workdir=runs/t5
    attention-research reproduce t5_2020/objectives --scale=cpu

variant   parameters  GFLOP/step    steps  time       perplexity
paper    222,903,552      55,860  524,288  not run    not in the paper
cpu          361,472         1.2     1500  4 minutes  94.6 (three seeds together)
smoke         13,936        0.02        8  seconds    it learns nothing

Pre-norm RMSNorm without biases, relative position biases in each stack, one unscaled embedding table, Adafactor. Spans
of three tokens on average are masked (section 3.3.4). `cpu` reads film reviews.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "paper": "the published sizes: 222,903,552 parameters",
    "cpu": "minutes on two cores",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"paper": paper, "cpu": cpu, "smoke": smoke}[variant]()


def paper() -> ConfigDict:
    """Two stacks of the size of BERT-base, trained as in section 3.1.2, without dropout in pre-training."""
    config = ConfigDict({"max_length": 512, "vocabulary_size": 32128})
    config.task = {"kind": "text_to_text"}
    config.data = {"kind": "text", "name": "c4/en", "sentinels": 100, "objective": {"kind": "span_corruption"}}
    config.model = {
        "kind": "transformer",
        "num_layers": 12,
        "width": 768,
        "num_heads": 12,
        "head_width": 64,
        "dropout_rate": 0.0,
        "self_attention": {"kind": "t5", "use_bias": False, "num_buckets": 32, "max_distance": 128},
        "feed_forward": {"kind": "dense", "hidden_width": 3072, "activation": "relu", "use_bias": False},
        "norm": {"kind": "rms_norm"},
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


def cpu() -> ConfigDict:
    """A sixth of the depth and a twelfth of the width, on film reviews."""
    config = paper()
    config.max_length, config.vocabulary_size = 64, 2048
    config.data.update(name="reviews/imdb", sentinels=32)
    config.model.update(num_layers=2, width=64, num_heads=4, head_width=16)
    config.model.feed_forward.hidden_width = 256
    config.training.update(steps=1500, batch_size=16, learning_rate=0.03)
    config.training.update(checkpoint_every=750, eval_every=500, log_every=100, eval_batches=32)
    config.training.schedule.warmup_steps = 100
    config.evaluation.examples = 512
    return config


def smoke() -> ConfigDict:
    """Small in every dimension, with primes where possible."""
    config = paper()
    config.max_length, config.vocabulary_size = 64, 211
    config.data.update(name="reviews/rotten_tomatoes", sentinels=16)
    config.model.update(num_layers=2, width=16, num_heads=2, head_width=8)
    config.model.feed_forward.hidden_width = 32
    config.training.update(
        steps=8, batch_size=4, checkpoint_every=8, eval_every=4, log_every=2, eval_batches=1, keep_best=0
    )
    config.evaluation.update(examples=16, batch_size=16)
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(N(x))) for each layer f."""
    return tuple(("norm", layer, "dropout", "residual") for layer in layers)
