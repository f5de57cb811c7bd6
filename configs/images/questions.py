"""Answers questions about pictures from a fixed list: words attend to the feature map of a convolutional network.

    attention-research train    --config=configs/images/questions.py:collages --workdir=runs/asked
    attention-research train    --config=configs/images/questions.py:collages --workdir=runs/pooled \\
                                --config.model.reader.kind=pooled
    attention-research evaluate --workdir=runs/asked                       # accuracy and macro-F1

variant   parameters  GFLOP/step  steps
collages     110,674        1.26   6000
shapes       113,877        2.24   1500
smoke          6,316        0.01      4

`inspect` prints these counts. GFLOP are those of one training step. `collages` asks which digit is at a place, which
digit has a colour, and how many digits there are; it takes a few minutes on two cores. A model learns these questions
faster if its features come from a captioning model (configs/images/captions.py), as in `experiments/lectures/image_qa`:
`--config.training.initial=runs/collages --config.training.initial_parts="('features',)"`. `shapes` is easy-vqa: one
drawn shape per picture, 13 answers.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "collages": "questions on coloured digits in nine cells: minutes on two cores",
    "shapes": "easy-vqa's questions on drawn shapes",
    "smoke": "seconds: shows that everything runs, learns nothing",
}
PRE_NORM = (("norm", "self_attention", "dropout", "residual"), ("norm", "feed_forward", "dropout", "residual"))


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"collages": collages, "shapes": shapes, "smoke": smoke}[variant]()


def asked(*, side: int, max_length: int, vocabulary_size: int, num_classes: int, steps: int) -> ConfigDict:
    """One encoder layer of width 64 for the question, and a feature map of 1/8 of the picture's side."""
    config = ConfigDict({"kind": "images_and_words", "side": side, "channels": 3})
    config.max_length, config.vocabulary_size = max_length, vocabulary_size
    config.task = {"kind": "classification"}
    config.model = {
        "kind": "image_question_classifier",
        "width": 64,
        "num_layers": 1,
        "num_heads": 4,
        "num_classes": num_classes,
        "readout_width": 128,
        "dropout_rate": 0.0,
        "feed_forward": {"kind": "dense", "hidden_width": 256},
        "embedding": {"kind": "learned", "scale": 8.0},
        "encoder": {"kind": "transformer", "steps": PRE_NORM, "final_norm": True},
        "features": {"kind": "cnn", "width": 8, "num_layers": 4, "halvings": 3},
        "places": {"kind": "learned", "max_length": (side // 8) ** 2},
    }
    config.training = {
        "steps": steps,
        "batch_size": 64,
        "learning_rate": 0.002,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "cosine", "warmup_steps": 50},
        "clip_norm": 5.0,
        "checkpoint_every": 1500,
        "eval_every": 500,
        "log_every": 10,
        "keep": 1,
        "keep_best": 0,
    }
    config.evaluation = {"kind": "classification", "batch_size": 64}
    return config


def collages() -> ConfigDict:
    """Two to six digits in nine cells of 16 x 16 pixels, and three questions per picture."""
    config = asked(side=48, max_length=10, vocabulary_size=48, num_classes=10, steps=6000)
    config.data = {"kind": "collage_questions", "grid": 3}
    return config


def shapes() -> ConfigDict:
    """Questions on easy-vqa's pictures."""
    config = asked(side=64, max_length=16, vocabulary_size=64, num_classes=13, steps=1500)
    config.data = {"kind": "image_questions", "name": "shape_questions"}
    return config


def smoke() -> ConfigDict:
    """Few pictures, narrow layers, four steps."""
    config = collages()
    config.data.update(train_pictures=32, held_out=16)
    config.model.update(width=16, num_heads=2, readout_width=8)
    config.model.feed_forward.hidden_width = 16
    config.model.features.update(width=2)
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 1
    config.evaluation.update(batch_size=16, examples=16)
    return config
