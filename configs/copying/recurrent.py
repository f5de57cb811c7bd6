"""Delayed copying and agreement at a distance, on generated text: recurrent models with and without attention.

    attention-research train --config=configs/copying/recurrent.py:cpu --workdir=runs/copying
    attention-research train --config=configs/copying/recurrent.py:cpu --workdir=runs/copying-attention \\
        --config.model.alignment.kind=global

variant    parameters  GFLOP/step  steps  time                        accuracy
cpu            76,320        0.66  1,500  under a minute on one core  by distance: experiments/lectures/gradients
agreement      76,320        0.66    600  under a minute on one core  of verbs: experiments/lectures/rnn_vs_transformer
smoke           6,048        0.00      4  seconds                     it learns nothing

`inspect` prints the parameters and the GFLOP of one training step. BLEU is not used. The text is generated: the model
reads three letters, up to 40 fillers and a question mark, and then writes the letters. It has one left-to-right layer
of width 64. By default it is an LSTM without attention; `--config.model.cell.kind` selects another cell.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "three letters after 0 to 40 fillers: under a minute on one core",
    "agreement": "a verb that agrees with the first noun of up to 21",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "agreement": agreement, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """One bucket for all examples, so that the step is compiled once; Adam at a constant rate, clipped gradients."""
    config = ConfigDict({"max_length": 48, "vocabulary_size": 32})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {
        "kind": "copying",
        "max_delay": 40,
        "symbols": 8,
        "length": 3,
        "batching": {"kind": "buckets", "boundaries": (48,)},
    }
    config.model = {
        "kind": "recurrent",
        "width": 64,
        "num_layers": 1,
        "dropout_rate": 0.0,
        "cell": {"kind": "lstm"},
        "encoder": {"kind": "unidirectional"},
        "decoder": {"kind": "luong", "input_feeding": False},
        "alignment": {"kind": "none"},
    }
    config.training = {
        "steps": 1500,
        "batch_size": 32,
        "learning_rate": 0.003,
        "schedule": {"kind": "constant"},
        "clip_norm": 1.0,
        "checkpoint_every": 1500,
        "log_every": 25,
        "eval_every": 500,
        "keep": 1,
    }
    config.decoding = {"kind": "greedy", "extra_length": 0}
    return config


def agreement() -> ConfigDict:
    """Up to 40 words between the noun and its verb; every second word is a noun, singular or plural."""
    config = cpu()
    config.data = {
        "kind": "agreement",
        "max_delay": 40,
        "subject": "first",
        "batching": {"kind": "buckets", "boundaries": (48,)},
    }
    config.training.update(steps=600, checkpoint_every=600, eval_every=200)
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = cpu()
    config.update(max_length=16)
    config.data.update(max_delay=8, train_examples=200)
    config.data.batching.boundaries = (16,)
    config.model.width = 16
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation = {"examples": 16, "batch_size": 16}
    return config
