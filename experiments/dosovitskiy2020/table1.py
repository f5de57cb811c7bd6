"""Dosovitskiy et al. 2021 (ViT), Tables 1 and 2: exact parameter counts of the published sizes.

    attention-research inspect   --study=dosovitskiy2020/table1 --scale=paper     # parameters; allocates nothing
    attention-research reproduce dosovitskiy2020/table1 --scale=cpu

Parameters are counted at 224 pixels with 1,000 classes. The published accuracies are those of models pre-trained on JFT
(303 million private images) or ImageNet-21k. The columns of Table 2 differ in the pre-training data too, so they do not
compare architectures only. `dosovitskiy2020/data_size` trains models.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from attention_research.config import load
from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed

from ..lra2020.step_cost import of_trial


def measure_counts(*, workdir: Path, seed: int, **_: object) -> dict[str, int]:
    """Counts "parameters" and "without_head" (without the classification layer), for the first seed only."""
    from attention_research.config import build
    from attention_research.layers.structure import abstract

    if seed:
        return {}
    constructor = build(of_trial(workdir).resolved["model"], "model")
    _, parameters, _ = abstract(lambda rngs: constructor(rngs=rngs))
    count = lambda *beginning: sum(math.prod(x.shape) for name, x in parameters.items() if name.startswith(beginning))
    return {"parameters": count(""), "without_head": count("") - count("head.")}


CONFIG = "configs/images/vision_transformer.py"
COUNTED = {"b16": "ViT-B/16", "b32": "ViT-B/32", "l16": "ViT-L/16", "l32": "ViT-L/32", "h14": "ViT-H/14"}
PRINTED = {
    "l16_imagenet21k": "ViT-L/16, ImageNet-21k",
    "bit_l": "BiT-L (ResNet152x4)",
    "noisy_student": "Noisy Student (EfficientNet-L2)",
}


def counted_row(variant: str) -> Row:
    """A row of a published size that is counted and not trained.

    Below the scale `paper`, other images of the same size are used, so that ImageNet is not needed.
    """
    given: dict[str, Any] = load(f"{CONFIG}:{variant}", []).given
    here = {name: given[name] for name in ("side", "channels", "model", "training")}
    at = {"cpu": here, "paper": given}
    if variant == "b16":
        at["smoke"] = here
    return Row(variant, COUNTED[variant], at=at, scales=tuple(at), stages=(measure(measure_counts),))


STUDY = Study(
    rows=(*map(counted_row, COUNTED), *(Row(id, name, scales=()) for id, name in PRINTED.items())),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=1, jobs=2),
        "paper": Scale(
            f"{CONFIG}:b16", seeds=1, note="Counts for images of 224 x 224, 1,000 classes, batches of 4,096."
        ),
    },
    competence=(),
    columns=(
        Column("measure.parameters", "parameters", fixed(0), spread=False),
        Column("measure.without_head", "parameters without head", fixed(0), spread=False),
    ),
    published="table1.csv",
    notes=(
        "Published: the sizes of Table 1 are Base, Large and Huge, without a patch size; accuracies are from Table 2.",
    ),
)
