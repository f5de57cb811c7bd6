"""Classifies long sequences with a small encoder, after the Long Range Arena (Tay et al. 2021, arXiv 2011.04006).

    attention-research train    --config=configs/classification/long_range.py:image --workdir=runs/image
    attention-research train    --config=configs/classification/long_range.py:image --workdir=runs/image-linear \\
                                --config.model.self_attention.kind=linear
    attention-research evaluate --workdir=runs/image                       # accuracy and macro-F1

variant        parameters  GFLOP/step  steps  tokens
listops            77,194         2.4    400  128
text               91,778         3.2    400  256
retrieval         116,354         2.4    400  128, twice
image              92,618         2.2    400  196
pathfinder         75,458         3.9    400  289
listops_base   19,982,346      12,753   5000  2,000
text_base       3,487,234       1,063  20000  1,000
smoke               3,994         0.0      4  32

`inspect` prints these counts. GFLOP are those of one training step with standard attention. The table of
`experiments/lra2020/table1.py` gives the accuracy and the time of ListOps and Image; after so few steps the other three
are near chance. Each variant trains in about a minute on one core. The numbers of the first five are not comparable
with published ones: the sequences are shorter, and Text, Retrieval and Image use other data (`data.labelled`,
`data.matching`, `data.pixels`). The two `_base` variants are the released base configurations of the arena, with the
mean over positions instead of a CLS vector. In the paper, Text has up to 4,000 bytes.
"""

import math

from ml_collections import ConfigDict

VARIANTS = {
    "listops": "expressions of 17 to 127 tokens, ten values",
    "text": "the first 255 bytes of film reviews, 2 classes",
    "retrieval": "pairs of news stories of one class or not, 128 bytes each",
    "image": "handwritten digits of 14 x 14 pixels, one by one",
    "pathfinder": "dashed paths that connect two dots or not, 17 x 17 pixels",
    "listops_base": "the arena's released ListOps: 501 to 1,999 tokens, 6 layers of width 512; for an accelerator",
    "text_base": "the arena's released Text: 1,000 bytes, 4 layers of width 256; for an accelerator",
    "smoke": "seconds: shows that everything runs, learns nothing",
}
PRE_NORM = (("norm", "self_attention", "dropout", "residual"), ("norm", "feed_forward", "dropout", "residual"))
BYTES = 260


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    found = {
        "listops": listops,
        "text": text,
        "retrieval": retrieval,
        "image": image,
        "pathfinder": pathfinder,
        "listops_base": listops_base,
        "text_base": text_base,
        "smoke": smoke,
    }
    return found[variant]()


def classifier(
    *, max_length: int, vocabulary_size: int, num_classes: int, layers: int, width: int, heads: int, hidden: int
) -> ConfigDict:
    """A pre-norm encoder without biases in its attention; embeddings of unit variance, Adam, batches of one length."""
    config = ConfigDict({"max_length": max_length, "vocabulary_size": vocabulary_size})
    config.task = {"kind": "classification"}
    config.model = {
        "kind": "encoder_classifier",
        "width": width,
        "num_layers": layers,
        "num_heads": heads,
        "num_classes": num_classes,
        "readout_width": hidden,
        "self_attention": {"kind": "standard", "use_bias": False},
        "feed_forward": {"kind": "dense", "hidden_width": hidden, "activation": "gelu"},
        "embedding": {"kind": "learned", "scale": math.sqrt(width)},
        "encoder": {"kind": "transformer", "steps": PRE_NORM, "final_norm": True},
    }
    config.training = {
        "optimizer": {"kind": "adam", "b2": 0.98, "epsilon": 1e-9},
        "keep": 1,
        "keep_best": 0,
    }
    config.evaluation = {"kind": "classification", "batch_size": 128}
    return config


def small(*, max_length: int, vocabulary_size: int, num_classes: int) -> ConfigDict:
    """Two layers of width 64 for two cores, without dropout: the training is too short to overfit."""
    config = classifier(
        max_length=max_length, vocabulary_size=vocabulary_size, num_classes=num_classes, layers=2, width=64, heads=4,
        hidden=128,
    )  # fmt: skip
    config.model.dropout_rate = 0.0
    config.model.encoder.unroll = True
    config.training.update(
        steps=400, batch_size=16, learning_rate=0.001, schedule={"kind": "cosine", "warmup_steps": 40},
        checkpoint_every=400, eval_every=400, log_every=40, eval_batches=4,
    )  # fmt: skip
    return config


def listops() -> ConfigDict:
    """The depth and number of arguments of the arena, at a sixteenth of its length."""
    config = small(max_length=128, vocabulary_size=16, num_classes=10)
    config.data = {"kind": "listops", "min_length": 16, "train_examples": 13_000, "held_out": 1000}
    config.training.batch_size = 32
    return config


def text() -> ConfigDict:
    """Truncated film reviews."""
    config = small(max_length=256, vocabulary_size=BYTES, num_classes=2)
    config.data = {"kind": "labelled", "name": "reviews/imdb", "tokenizer": {"kind": "bytes"}, "boundaries": (),
                   "normalization": "none"}  # fmt: skip
    config.evaluation.examples = 1000
    return config


def retrieval() -> ConfigDict:
    """Two towers, so that a batch has twice as many tokens."""
    config = small(max_length=128, vocabulary_size=BYTES, num_classes=2)
    config.model.kind = "pair_classifier"
    config.data = {"kind": "matching", "name": "news/bbc", "held_out": 1000}
    return config


def image() -> ConfigDict:
    """4,000 training digits."""
    config = small(max_length=196, vocabulary_size=257, num_classes=10)
    config.data = {"kind": "pixels", "shrink": 2}
    return config


def pathfinder() -> ConfigDict:
    """Paths of 6 nodes on a lattice of 5 x 5."""
    config = small(max_length=289, vocabulary_size=5, num_classes=2)  # 5 is the smallest allowed vocabulary
    config.data = {"kind": "pathfinder", "lattice": 5, "nodes": 6, "distractors": 2, "train_examples": 10_000,
                   "held_out": 1000}  # fmt: skip
    return config


def released(config: ConfigDict, *, steps: int, warmup: int) -> ConfigDict:
    """The arena's optimizer: Adam with weight decay 0.1, 0.05 min(1, step / warmup) / sqrt(max(step, warmup))."""
    config.model.dropout_rate = 0.1
    config.training.update(
        steps=steps, batch_size=32, learning_rate=0.05 / math.sqrt(warmup),
        schedule={"kind": "inverse_sqrt", "warmup_steps": warmup, "ramp_steps": warmup},
        optimizer={"kind": "adamw", "b2": 0.98, "epsilon": 1e-9, "weight_decay": 0.1},
    )  # fmt: skip
    return config


def listops_base() -> ConfigDict:
    """`listops/configs/base_listops_config.py`; the released code does not pass its setting of tied weights on."""
    config = classifier(
        max_length=2000, vocabulary_size=16, num_classes=10, layers=6, width=512, heads=8, hidden=2048
    )  # fmt: skip
    config.data = {"kind": "listops"}
    return released(config, steps=5000, warmup=1000)


def text_base() -> ConfigDict:
    """`text_classification/configs/base_tc_config.py`."""
    config = classifier(
        max_length=1000, vocabulary_size=BYTES, num_classes=2, layers=4, width=256, heads=4, hidden=1024
    )  # fmt: skip
    config.data = {"kind": "labelled", "name": "reviews/imdb", "tokenizer": {"kind": "bytes"}, "boundaries": (),
                   "normalization": "none"}  # fmt: skip
    return released(config, steps=20_000, warmup=8000)


def smoke() -> ConfigDict:
    """Short expressions, four steps."""
    config = small(max_length=32, vocabulary_size=16, num_classes=10)
    config.data = {"kind": "listops", "min_length": 4, "train_examples": 64, "held_out": 32}
    config.model.update(width=16, readout_width=16)
    config.model.feed_forward.hidden_width = 16
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1,
                           schedule={"kind": "constant"})  # fmt: skip
    config.evaluation.update(batch_size=16, examples=32)
    return config
