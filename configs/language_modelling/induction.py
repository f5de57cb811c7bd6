"""Induction heads: Transformers of two layers of attention, at the size of Gu & Dao 2023 (Mamba), Table 11.

    attention-research train    --config=configs/language_modelling/induction.py:rotary --workdir=runs/induction
    attention-research evaluate --workdir=runs/induction             # accuracy of the answers at 256 tokens

variant  parameters  GFLOP/step    steps  time          accuracy at 256 tokens (published)
rotary      136,980        3.26  409,600  not recorded  100 %
smoke         2,804        0.00        4  seconds       it learns nothing

A sequence has 256 random symbols; the trigger stands once among them and once at the end, and the model is to give the
symbol that followed it (`data.induction`). Blocks are attention alone, of width 128 and without biases, as the
published 137K parameters imply; the number of heads, here 8, is not stated. Adam at a constant 0.0002, 8 new sequences
in each batch. A run ends once all 512 validation sequences were right at five consecutive checks; the paper
does not stop early. experiments/mamba2023 has other position codes, and the accuracies at 64 to 4,096 tokens.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "rotary": "two layers of attention with rotary positions",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"rotary": rotary, "smoke": smoke}[variant]()


def rotary() -> ConfigDict:
    """The settings of the paper, and those that it does not state."""
    config = ConfigDict({"max_length": 256, "vocabulary_size": 20})
    config.task = {"kind": "answers"}
    config.data = {"kind": "induction"}
    config.model = {
        "kind": "transformer_decoder",
        "num_layers": 2,
        "width": 128,
        "num_heads": 8,
        "dropout_rate": 0.0,
        "self_attention": {"kind": "rotary", "use_bias": False},
        "positions": {"kind": "none"},
        "vocabulary": {"kind": "untied"},
        "feed_forward": {"kind": "dense", "hidden_width": 128},  # a required setting, which no step uses
        "decoder": {"steps": (("norm", "self_attention", "residual"),)},
    }
    config.training = {
        "steps": 409_600,
        "batch_size": 8,
        "learning_rate": 0.0002,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "constant"},
        "stop_at": 1.0,
        "stop_checks": 5,
        "checkpoint_every": 20_000,
        "eval_every": 1000,
        "log_every": 500,
        "eval_batches": 64,  # all validation sequences
        "keep_best": 0,
    }
    config.evaluation = {"kind": "answers", "split": "validation", "batch_size": 64}
    return config


def smoke() -> ConfigDict:
    """Small in every dimension."""
    config = rotary()
    config.max_length = 16
    config.data.held_out = 16
    config.model.update(width=16, num_heads=2)
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16)
    return config
