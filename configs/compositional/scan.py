"""SCAN: commands to actions with the recurrent models of Lake & Baroni 2018.

    attention-research train    --config=configs/compositional/scan.py:lstm --workdir=runs/scan
    attention-research evaluate --workdir=runs/scan               # the error rate of actions, and of whole sequences
    attention-research train    --config=configs/compositional/scan.py:lstm --workdir=runs/longer \\
        --config.data.split=length

variant  parameters  GFLOP/step    steps  time                  error rate of whole sequences, %, split "simple"
lstm      1,337,023        0.40  100,000  31 minutes, one core  0.4 (one seed; published: 0.3)
smoke         9,831        0.01        4  seconds               it learns nothing

`lstm` is the paper's best model over all experiments: two layers of 200 cells, dropout 0.5, no attention. It sees one
command at a time, 100,000 in all, with Adam at 0.001 and gradients clipped at norm 5. The paper feeds the model's own
output instead of the target for every second command; here it is always the target. experiments/lake2018 has the other
splits and models.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "lstm": "two layers of 200 LSTM cells without attention, 100,000 commands one at a time",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"lstm": lstm, "smoke": smoke}[variant]()


def lstm() -> ConfigDict:
    """Three lengths, since most commands are shorter than the longest."""
    config = ConfigDict({"max_length": 50, "vocabulary_size": 23})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {"kind": "scan", "split": "simple", "batching": {"kind": "buckets", "boundaries": (12, 24)}}
    config.model = {
        "kind": "recurrent",
        "width": 200,
        "num_layers": 2,
        "dropout_rate": 0.5,
        "cell": {"kind": "lstm"},
        "encoder": {"kind": "unidirectional"},
        "decoder": {"kind": "luong", "input_feeding": False},
        "alignment": {"kind": "none"},
    }
    config.training = {
        "steps": 100_000,
        "batch_size": 1,
        "learning_rate": 0.001,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "constant"},
        "clip_norm": 5.0,
        "checkpoint_every": 20_000,
        "eval_every": 20_000,
        "log_every": 1000,
        "keep_best": 0,
    }
    config.decoding = {"kind": "greedy", "extra_length": 50}
    config.evaluation = {"kind": "error_rate", "split": "test", "batch_size": 256}
    config.evaluations = {"seen": {"kind": "error_rate", "split": "validation", "batch_size": 256}}
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = lstm()
    config.model.width = 16
    config.data.batching.boundaries = ()
    config.data.train_examples = 64
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    for one in (config.evaluation, config.evaluations.seen):
        one.update(examples=16, batch_size=16)
    return config
