"""Long memory over series of numbers: the adding problem and copy memory of Bai, Kolter & Koltun 2018.

    attention-research train    --config=configs/series/memory.py:adding --workdir=runs/adding
    attention-research evaluate --workdir=runs/adding                     # the mean squared error
    attention-research train    --config=configs/series/memory.py:copy --workdir=runs/copy --config.max_length=220

variant  parameters  GFLOP/step  steps  time                  score               recorded      published  baseline
adding       70,369        8.00   7000  not recorded          mean squared error  not recorded  0.000058   0.167
copy         12,530        2.38   3000  10 minutes, one core  loss per position   0.0012        0.000035   0.0204
smoke           433        0.00      4  seconds               it learns nothing

The models are temporal convolutional networks. The baselines are a constant answer (`adding`) and the best answer
without a memory (`copy`). The recorded number is that of one seed. experiments/bai2018 has recurrent networks and
Transformers on the same problems.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "adding": "a temporal convolutional network on the adding problem, 600 positions",
    "copy": "a temporal convolutional network on copy memory over 1,000 positions",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"adding": adding, "copy": copy, "smoke": smoke}[variant]()


def series(*, max_length: int, channels: int, width: int, steps: int) -> ConfigDict:
    """Eight levels with 8 taps, batches of 32, a constant learning rate; the checkpoint with the least validation
    loss counts."""
    config = ConfigDict({"kind": "series", "max_length": max_length, "channels": channels})
    config.model = {
        "kind": "series",
        "width": width,
        "dropout_rate": 0.0,
        "network": {"kind": "temporal_convolution", "num_layers": 8, "kernel_width": 8},
    }
    config.training = {
        "steps": steps,
        "batch_size": 32,
        "schedule": {"kind": "constant"},
        "checkpoint_every": steps // 4,
        "eval_every": steps // 20,
        "log_every": steps // 100,
        "eval_batches": 32,
        "keep": 1,
        "keep_best": 1,
        "chosen_checkpoint": "best",
    }
    return config


def adding() -> ConfigDict:
    """Adam at 0.004, as in the released code; 7,000 updates, as in the paper's figure."""
    config = series(max_length=600, channels=2, width=24, steps=7000)
    config.task = {"kind": "regression"}
    config.data = {"kind": "adding"}
    config.training.update(
        learning_rate=0.004, optimizer={"kind": "adam", "b2": 0.999, "epsilon": 1e-8}
    )  # fmt: skip
    config.evaluation = {"kind": "regression", "split": "test", "batch_size": 100}
    return config


def copy() -> ConfigDict:
    """RMSProp at 0.0005, as in the released code; 3,000 updates, as in the paper's figure."""
    config = series(max_length=1020, channels=1, width=10, steps=3000)
    config.task = {"kind": "position_classes"}
    config.data = {"kind": "copy_memory"}
    config.model.outputs = 10
    config.training.update(learning_rate=0.0005, optimizer={"kind": "rmsprop"})
    config.evaluation = {"kind": "position_classes", "split": "test", "batch_size": 100}
    return config


def smoke() -> ConfigDict:
    """A few positions."""
    config = adding()
    config.max_length = 12
    config.data.update(train_examples=64, held_out=32)
    config.model.width = 6
    config.model.network.update(num_layers=2, kernel_width=3)
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.batch_size = 16
    return config
