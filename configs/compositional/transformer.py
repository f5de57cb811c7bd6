"""Addition and reversing of digits, tested on longer examples: the Transformer of Ontanon et al. 2021.

    attention-research train    --config=configs/compositional/transformer.py:addition --workdir=runs/addition
    attention-research evaluate --workdir=runs/addition       # the error rate of longer sums, and "within"
    attention-research train    --config=configs/compositional/transformer.py:addition --workdir=runs/relative \\
        --config.model.self_attention.kind=relative_keys --config.model.positions.kind=none \\
        --config.model.decoder.cross_attention.kind=cross_relative_keys

variant    parameters  GFLOP/step  steps  time                  wrong, longer, %  what it measures
addition      236,352        2.50   6250  18 minutes, one core  98.0              sums of numbers with more digits
reversing     236,160        2.50   6250  not recorded          not recorded      longer sequences, reversed
smoke           6,288        0.00      4  seconds               it learns nothing

The numbers of `addition` are those of one seed (experiments/ontanon2021, row "absolute"). `evaluate` prints the error
rate of digits and of whole sequences, for longer examples and, under "within", for those as long as in training. The
sizes, the schedule and the 200,000 training examples are those of the paper (arXiv 2108.04378, section 4): two layers
of width 64 on each side, post-norm, Adam with warm-up over 4,000 updates, batches of 64, two epochs.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "addition": "numbers of up to 8 digits; tested on 9 and 10",
    "reversing": "up to 16 digits; tested on 17 to 24",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"addition": addition, "reversing": reversing, "smoke": smoke}[variant]()


def addition() -> ConfigDict:
    """One length for all examples."""
    config = ConfigDict({"max_length": 26, "vocabulary_size": 15})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {"kind": "longer", "task": "addition", "batching": {"kind": "buckets", "boundaries": ()}}
    config.data.held_out = 512
    config.model = {
        "kind": "transformer",
        "num_layers": 2,
        "width": 64,
        "num_heads": 4,
        "dropout_rate": 0.1,
        "vocabulary": {"kind": "separate"},
        "feed_forward": {"kind": "dense", "hidden_width": 256},
    }
    config.training = {
        "steps": 6250,
        "batch_size": 64,
        "learning_rate": 1.0,
        "schedule": {"kind": "noam", "warmup_steps": 4000},
        "checkpoint_every": 6250,
        "eval_every": 1250,
        "log_every": 50,
        "keep_best": 0,
    }
    config.decoding = {"kind": "greedy"}
    config.evaluation = {"kind": "error_rate", "split": "test", "batch_size": 256}
    config.evaluations = {"within": {"kind": "error_rate", "split": "validation", "batch_size": 256}}
    return config


def reversing() -> ConfigDict:
    """Two lengths: that of training, and that of the test split."""
    config = addition()
    config.vocabulary_size = 14
    config.data.update(task="reversing", held_out=1024)
    config.data.batching.boundaries = (17,)
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = addition()
    config.model.update(num_layers=1, width=16)
    config.model.feed_forward.hidden_width = 32
    config.data.update(train_examples=64, held_out=16)
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 1
    config.evaluation.batch_size = config.evaluations.within.batch_size = 16
    return config
