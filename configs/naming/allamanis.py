"""Names functions from their bodies, by convolutional attention with copying: Allamanis, Peng & Sutton 2016.

    attention-research train    --config=configs/naming/allamanis.py:cpu --workdir=runs/naming
    attention-research evaluate --workdir=runs/naming      # F1 at 1 and 5, exact match, sub-tokens never seen, lambda

variant    parameters  GFLOP/step   steps  time                    F1
allamanis     618,977      147.92   5,000  the paper does not say  not quoted here
cpu           180,657        1.52  10,000  minutes on one core     experiments/allamanis2016/results
smoke           6,218        0.01       4  seconds                 0: it learns nothing

`inspect` prints the parameters and the GFLOP of one training step. `allamanis` is the paper's model with the settings
of its released script, and `cpu` the same model at width 64. The data are the Python standard library of the running
interpreter, split by module, so that the F1 is not comparable with that of the paper, which is the mean of ten Java
projects. `--config.model.kind=conv_attention` is the model without copying.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "allamanis": "the paper's model and recipe: D 128, k1 32, k2 16, windows 18, 19, 2, dropout 0.4",
    "cpu": "the same model, shorter bodies: minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"allamanis": allamanis, "cpu": cpu, "smoke": smoke}[variant]()


def allamanis() -> ConfigDict:
    """The released script, except for its optimizer (RMSProp with Nesterov momentum, rate 10^-3.05, clipped at 0.75).

    The script trains 25 minibatches of 500 per epoch, until 5 epochs bring no improvement. It treats words with fewer
    than 5 occurrences as unknown; here about 4,000 words remain. Suggestions by beam search, without length penalty.
    """
    config = ConfigDict({"max_length": 512, "vocabulary_size": 4096})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {"kind": "naming", "batching": {"kind": "buckets", "boundaries": (32, 64, 128, 256, 512)}}
    config.model = {
        "kind": "copy_attention",
        "max_length": 8,
        "width": 128,
        "first_maps": 32,
        "windows": (18, 19, 2),
        "dropout_rate": 0.4,
        "cell": {"kind": "gru", "width": 16},
    }
    config.training = {
        "steps": 5000,
        "batch_size": 500,
        "learning_rate": 1e-3,
        "clip_norm": 0.75,
        "optimizer": {"kind": "adam", "b1": 0.9, "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "constant"},
        "checkpoint_every": 250,
        "eval_every": 250,
        "log_every": 25,
    }
    config.decoding = {"kind": "beam", "beam_size": 5, "alpha": 0.0, "extra_length": 8}
    config.evaluation = {"kind": "naming"}
    return config


def cpu() -> ConfigDict:
    """Bodies of at most 127 sub-tokens, 2,000 sub-tokens in the vocabulary; 45 epochs over 7,137 functions.

    The loss on validation functions is lowest after a tenth of the updates, but F1 rises until the end.
    """
    config = allamanis()
    config.update(max_length=128, vocabulary_size=2000)
    config.data.batching.boundaries = (32, 64, 128)
    config.model.update(width=64)
    config.training.update(
        steps=10_000, batch_size=32, learning_rate=5e-3, checkpoint_every=2000, eval_every=1000, log_every=100
    )
    config.training.schedule = {"kind": "cosine", "warmup_steps": 100}
    config.evaluation.update(examples=1000)
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = cpu()
    config.update(max_length=32, vocabulary_size=300)
    config.data.update(train_examples=400)
    config.data.batching.boundaries = (32,)
    config.model.update(width=16, first_maps=5, windows=(4, 3, 2), cell={"kind": "gru", "width": 8})
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16, suggestions=2)
    return config
