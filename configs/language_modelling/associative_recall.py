"""Associative recall as in the released code of Arora et al. 2023: answers at the queries, no feed-forward.

    attention-research train    --config=configs/language_modelling/associative_recall.py:attention --workdir=runs/asked
    attention-research evaluate --workdir=runs/asked                                      # accuracy of the answers
    attention-research train    --config=configs/language_modelling/associative_recall.py:mixer --workdir=runs/hyena \\
        --config.model.network.self_attention.kind=hyena

variant    parameters  GFLOP/step   steps  time                  accuracy (published: read off the figure)
attention     562,304       18.25  12,544  28 minutes, one core  100.0 % (published: 100 %); guessing a value 25 %
mixer         592,000       35.65  12,544  not recorded          not recorded (not in the figure; Hyena 52 %)
smoke           3,104        0.00       4  seconds               it learns nothing

`attention` has two layers and learned positions, `mixer` four layers without positions, as the other rows of the
paper's Figure 2 have; its default is linear attention. A run ends with the first epoch after which the accuracy on
validation is at least 99 %, and has at most 64 epochs. The recorded seed of `attention` has the learning rate 0.0022
and ended after 13 epochs (experiments/zoology2023).
"""

from ml_collections import ConfigDict

VARIANTS = {
    "attention": "standard attention, 2 layers of width 64 with learned positions",
    "mixer": "another mixer, 4 layers of width 64 without positions",
    "smoke": "seconds: shows that everything runs, learns nothing",
}
#: The steps of an epoch: 100,000 sequences in batches of 512.
EPOCH = 196


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"attention": attention, "mixer": mixer, "smoke": smoke}[variant]()


def attention() -> ConfigDict:
    """The second branch of a block is a norm alone: this is what the released code computes with an identity in place
    of the feed-forward."""
    config = ConfigDict({"max_length": 64, "vocabulary_size": 8192})
    config.task = {"kind": "answers"}
    config.data = {"kind": "associative_recall", "pairs": 4}
    config.model = {
        "kind": "query_model",
        "width": 64,
        "dropout_rate": 0.1,
        "vocabulary": {"kind": "unscaled_no_bias"},
        "initialization": {"kind": "gpt2"},
        "network": {
            "kind": "transformer",
            "num_layers": 2,
            "num_heads": 1,
            "self_attention": {"kind": "standard"},
            "positions": {"kind": "learned"},
            "feed_forward": {"kind": "dense", "hidden_width": 64},  # a required setting, which no step uses
            "stack": {"steps": (("norm", "self_attention", "residual"), ("norm", "residual")), "unroll": True},
        },
    }
    config.training = {
        "steps": 64 * EPOCH,
        "batch_size": 512,
        "learning_rate": 0.00046,
        "optimizer": {"kind": "adamw", "weight_decay": 0.1},
        "schedule": {"kind": "cosine"},
        "checkpoint_every": 16 * EPOCH,
        "eval_every": EPOCH,
        "log_every": 49,
        "eval_batches": 6,
        "keep": 1,
        "keep_best": 0,
        "stop_at": 0.99,
        "stop_by": "correct",
        "stop_checks": 1,
    }
    config.evaluation = {"kind": "answers", "split": "test", "batch_size": 500}
    return config


def mixer() -> ConfigDict:
    """Twice as many layers. A mixer must know the order of the positions by itself."""
    config = attention()
    config.model.network.update(num_layers=4, self_attention={"kind": "linear"}, positions={"kind": "none"})
    return config


def smoke() -> ConfigDict:
    """Small in every dimension."""
    config = attention()
    config.max_length, config.vocabulary_size = 16, 32
    config.data.update(pairs=3, train_examples=64, held_out=16)
    config.model.width = 16
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16)
    return config
