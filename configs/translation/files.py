"""A Transformer on your own pairs of text files: line i of one file translates line i of the other, UTF-8.

    attention-research train --config=configs/translation/files.py:cpu --workdir=runs/mine \\
        --config.data.train=corpus/train.fr,corpus/train.en \\
        --config.data.validation=corpus/validation.fr,corpus/validation.en \\
        --config.data.test=corpus/test.fr,corpus/test.en

Give the source file before the target file. Without these three options, the file names below are used.

The sizes below are for about 100,000 lines. For fewer lines, set `--config.vocabulary_size` to a few hundred pieces:
with more, most pieces occur too seldom to be learned. `--config.training.steps` is then smaller too.

variant  parameters  GFLOP/step    steps  time                                     test BLEU
base     63,082,496      10,914  100,000  12 hours on 8 P100 (the paper's)         27.3 (the paper's, on WMT14)
cpu       1,438,208        37.5    4,000  15 minutes on one thread of an AMD EPYC  29.1 on interface strings
smoke        31,104         0.1        4  seconds                                  0: it learns nothing

`base` and `cpu` have the models of the variants `vaswani_base` and `cpu` of `transformer.py`, whose header gives the
sources of these numbers. Times and BLEU are those on the data named in the last column; on your files they depend on
the files. `inspect` counts parameters and FLOPs once your files exist. Try `smoke` first: it reads your files, trains
and evaluates within a minute.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "your text files, 2+2 layers, width 128: minutes on one core",
    "base": "your text files, 6+6 layers, width 512, 100K steps (the paper's base model): for an accelerator",
    "smoke": "your text files, seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "base": base, "smoke": smoke}[variant]()


def base() -> ConfigDict:
    """The paper's base model and recipe."""
    config = ConfigDict({"max_length": 256, "vocabulary_size": 37000})
    config.task = {"kind": "translation", "label_smoothing": 0.1}
    config.data = {
        "kind": "files",
        "train": ("corpus/train.source", "corpus/train.target"),
        "validation": ("corpus/validation.source", "corpus/validation.target"),
        "test": ("corpus/test.source", "corpus/test.target"),
        "batching": {"kind": "packed"},
    }
    config.model = {
        "kind": "transformer",
        "num_layers": 6,
        "width": 512,
        "num_heads": 8,
        "dropout_rate": 0.1,
        "feed_forward": {"kind": "dense", "hidden_width": 2048},
    }
    config.training = {
        "steps": 100_000,
        "batch_size": 96,
        "learning_rate": 1.0,
        "schedule": {"kind": "noam", "warmup_steps": 4000},
        "checkpoint_every": 1500,
        "eval_every": 5000,
        "log_every": 100,
        "keep": 5,
    }
    config.decoding = {"kind": "beam", "beam_size": 4, "alpha": 0.6, "extra_length": 50}
    return config


def cpu() -> ConfigDict:
    """2+2 pre-norm layers of width 128, 4,000 pieces, AdamW, a linear decay after 10 % warm-up."""
    config = base()
    config.update(max_length=64, vocabulary_size=4000)
    config.data.batching = {"kind": "buckets", "boundaries": (8, 12, 16, 20, 28, 40, 64)}
    config.model.update(num_layers=2, width=128, num_heads=4)
    config.model.feed_forward.hidden_width = 512
    config.model.encoder = {"unroll": True, "steps": pre_norm("self_attention", "feed_forward"), "final_norm": True}
    config.model.decoder = {
        "unroll": True,
        "steps": pre_norm("self_attention", "cross_attention", "feed_forward"),
        "final_norm": True,
    }
    config.training = {
        "steps": 4000,
        "batch_size": 64,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adamw"},
        "schedule": {"kind": "linear", "warmup_steps": 400},
        "checkpoint_every": 1000,
        "eval_every": 500,
        "log_every": 50,
    }
    config.decoding = {"kind": "greedy", "extra_length": 50}
    return config


def smoke() -> ConfigDict:
    """One layer of width 32 and four steps: checks that your files can be read."""
    config = cpu()
    config.vocabulary_size = 300
    config.data.batching.boundaries = (64,)
    config.model.update(num_layers=1, width=32)
    config.model.feed_forward.hidden_width = 64
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 2
    config.evaluation = {"examples": 16, "batch_size": 16}
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(LN(x))) for each layer f."""
    return tuple(("norm", layer, "dropout", "residual") for layer in layers)
