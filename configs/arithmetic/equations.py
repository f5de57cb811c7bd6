"""Equations over a finite set: the small Transformer of Power et al. 2022 ("Grokking").

    attention-research train    --config=configs/arithmetic/equations.py:division --workdir=runs/division
    attention-research evaluate --workdir=runs/division          # accuracy of the equations that were not trained

variant   parameters   GFLOP/step   updates   time                           accuracy
division     420,608         6.35    10,000   1.1 hours for 20,000 updates   99 % after 4,450 updates
smoke          7,008         0.00         4   seconds                        it learns nothing

Half of the equations a / b = c mod 97 are for training (`data.equations`). With a weight decay of 1, as in `division`,
the model learns the training equations in hundreds of updates and the others in thousands. The time (one core) and the
accuracy of the validation equations are those of the recorded seed of experiments/power2022, which had
20,000 updates. experiments/power2022 also has other operations, fractions and decays.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "division": "half of the equations of division modulo 97, weight decay 1",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"division": division, "smoke": smoke}[variant]()


def division() -> ConfigDict:
    """Post-norm layers without biases, ReLU, sinusoids and an output layer of its own, as in the released code."""
    config = ConfigDict({"max_length": 5, "vocabulary_size": 103})
    config.task = {"kind": "answers"}
    config.data = {"kind": "equations", "operation": "division", "train_fraction": 0.5}
    config.model = {
        "kind": "transformer_decoder",
        "num_layers": 2,
        "width": 128,
        "num_heads": 4,
        "dropout_rate": 0.0,
        "self_attention": {"kind": "standard", "use_bias": False},
        "feed_forward": {"kind": "dense", "hidden_width": 512, "use_bias": False},
        "norm": {"kind": "layer_norm", "epsilon": 1e-5},
        "vocabulary": {"kind": "t5_untied_output"},
        "decoder": {
            "steps": (("self_attention", "residual", "norm"), ("feed_forward", "residual", "norm")),
            "final_norm": False,
        },
        "initialization": {"kind": "pytorch"},
    }
    config.training = {
        "steps": 10_000,
        "batch_size": 512,
        "learning_rate": 0.001,
        "optimizer": {"kind": "adamw", "b1": 0.9, "b2": 0.98, "weight_decay": 1.0},
        "schedule": {"kind": "constant", "warmup_steps": 10},
        "stop_at": 0.999,
        "stop_checks": 10,
        "checkpoint_every": 5000,
        "eval_every": 50,
        "log_every": 10,
        "eval_batches": 40,  # the whole validation split
        "keep_best": 0,
    }
    config.evaluation = {"kind": "answers", "split": "validation", "batch_size": 512}
    return config


def smoke() -> ConfigDict:
    """Small in every dimension."""
    config = division()
    config.model.update(width=16, num_heads=2)
    config.model.feed_forward.hidden_width = 24
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=2, log_every=1, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16)
    return config
