"""Decoder-only Transformers without feed-forwards on multi-query associative recall (Arora et al. 2023).

    attention-research train    --config=configs/language_modelling/recall.py:cpu --workdir=runs/recall
    attention-research evaluate --workdir=runs/recall                # accuracy of the answers
    attention-research train    --config=configs/language_modelling/recall.py:cpu --workdir=runs/synthesizer \\
        --config.model.self_attention.kind=dense_synthesizer

variant   parameters   GFLOP/step   steps   time                   accuracy
cpu           70,784         1.74     800   50 seconds, one core   100 %; dense_synthesizer 16 %; guessing 12.5 %
smoke          3,584         0.00       4   seconds                it learns nothing

A sequence of 64 tokens has 8 pairs of a key and a value, and asks for each key once (`data.recall`). "Guessing" answers
with one of the 8 values. Standard attention begins to recall suddenly, between steps 300 and 400. Its first layer finds
the key before each value, and its second layer finds the query among these keys. The blocks have no feed-forward, as in
the paper: `decoder.steps` lists the steps of a block. The output has its own matrix, with which the task is learned ten
times sooner than with a shared one.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "standard attention in 2 layers, 8 pairs: about a minute on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """Blocks of attention alone, as in the paper; Adam, with a warm-up and a cosine decay."""
    config = ConfigDict({"max_length": 64, "vocabulary_size": 256})
    config.task = {"kind": "answers"}
    config.data = {"kind": "recall", "pairs": 8, "train_examples": 20_000, "held_out": 1000}
    config.model = {
        "kind": "transformer_decoder",
        "num_layers": 2,
        "width": 64,
        "num_heads": 1,
        "dropout_rate": 0.0,
        "positions": {"kind": "learned"},
        "vocabulary": {"kind": "untied"},
        "feed_forward": {"kind": "dense", "hidden_width": 64},  # a required setting, which no step uses
        "decoder": {"steps": (("norm", "self_attention", "residual"),)},
    }
    config.training = {
        "steps": 800,
        "batch_size": 64,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adam"},
        "schedule": {"kind": "linear", "warmup_steps": 100},
        "clip_norm": 1.0,
        "checkpoint_every": 800,
        "eval_every": 100,
        "log_every": 50,
        "eval_batches": 8,
        "keep_best": 0,
    }
    config.evaluation = {"kind": "answers", "split": "test", "batch_size": 64}
    return config


def smoke() -> ConfigDict:
    """Small in every dimension."""
    config = cpu()
    config.max_length, config.vocabulary_size = 16, 32
    config.data.update(pairs=3, train_examples=64, held_out=16)
    config.model.width = 16
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16)
    return config
