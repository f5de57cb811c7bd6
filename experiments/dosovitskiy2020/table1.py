"""Dosovitskiy et al. 2021 (ViT), Tables 1 and 2: exact counts, and accuracy against a CNN by the number of images.

    attention-research inspect   --study=dosovitskiy2020/table1 --scale=paper     # parameters; allocates nothing
    attention-research reproduce dosovitskiy2020/table1 --scale=cpu

Counted: the published sizes at 224 pixels with 1,000 classes. The printed accuracies are of models pre-trained on JFT
(303 million private images) or ImageNet-21k; Table 2's columns differ in that too, and so compare no architectures
alone. Trained here, from scratch on Fashion-MNIST (`data_size`): the question of the paper's section 4.3, where an
encoder of patches stands beside a convolutional network by the number of training images, at a scale of its own.
"""

from __future__ import annotations

from typing import Any

from attention_research.config import load
from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import FLOPS, PARAMETERS, STEPS_PER_SECOND, Column, fixed

from . import data_size
from .counts import measure_counts
from .table1_figures import draw_rollout, draw_sizes
from .table1_verdict import ACCURACY, COUNT, MAJORITY, WITHOUT_HEAD, applies

CONFIG = data_size.CONFIG
COUNTED = {"b16": "ViT-B/16", "b32": "ViT-B/32", "l16": "ViT-L/16", "l32": "ViT-L/32", "h14": "ViT-H/14"}
PRINTED = {
    "l16_imagenet21k": "ViT-L/16, ImageNet-21k",
    "bit_l": "BiT-L (ResNet152x4)",
    "noisy_student": "Noisy Student (EfficientNet-L2)",
}


def counted_row(variant: str) -> Row:
    """A published size, counted and not trained; where ImageNet need not be, the images are others of its side."""
    given: dict[str, Any] = load(f"{CONFIG}:{variant}", []).given
    here = {name: given[name] for name in ("side", "channels", "model", "training")}
    at = {"cpu": here, "paper": given}
    if variant == "b16":
        at["smoke"] = here
    return Row(variant, COUNTED[variant], at=at, scales=tuple(at), stages=(measure(measure_counts),))


STUDY = Study(
    rows=(
        *map(counted_row, COUNTED),
        *(Row(id, name, scales=()) for id, name in PRINTED.items()),
        *data_size.rows(),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 32, "pictures": 4}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, replicas=True, settings={"examples": 512, "pictures": 8}),
        "gpu": Scale(f"{CONFIG}:cpu", data_size.GPU, seeds=3, settings={"examples": 2048, "pictures": 8}),
        "paper": Scale(f"{CONFIG}:b16", seeds=1, note="Counted: images of 224 x 224, 1,000 classes, batches of 4,096."),
    },
    columns=(
        Column(COUNT, "counted", fixed(0), spread=False),
        Column(WITHOUT_HEAD, "without head", fixed(0), spread=False),
        PARAMETERS,
        FLOPS,
        STEPS_PER_SECOND,
        Column(ACCURACY, "accuracy", fixed(1), better="higher"),
        Column(MAJORITY, "always one class", fixed(1), spread=False),
    ),
    published="table1.csv",
    claims="claims.csv",
    verdicts={"attention-beyond-rnn": applies},
    figures=(draw_sizes, draw_rollout),
    notes=(
        "Accuracy: Fashion-MNIST, 2,000 of its test images, from scratch; the same steps for any number of images. The "
        "seeds of a row were trained as replicas.",
        "Published: Table 1's sizes are the paper's Base, Large and Huge, of no one patch; accuracies are of Table 2.",
    ),
)
