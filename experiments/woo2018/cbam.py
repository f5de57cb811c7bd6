"""Woo et al. 2018: attention over the positions of an image, over its channels, and over both, in residual networks.

    attention-research reproduce woo2018/cbam --scale=cpu

Pictures of one coloured digit somewhere among grey pieces of digits (`data.placed_digits`): which digit it is, by an
8-layer residual network without gates, one a channel wider, and with spatial attention, channel attention, both (CBAM)
and SCA-CNN's distributions in every block; spatial attention and CBAM as the paper writes them and as their authors
released them, with normalised logits. Accuracy, cost, and how much of a gate map lies in the cell of the digit,
where even gates have a ninth. The printed errors are of ImageNet with 50 layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import ACCURACY, FLOPS, LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import by_row
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, against, compare, conclude

from ..he2015.networks import CONFIG, LONGER
from ..hu2018.gate_measures import measure_gates
from .cbam_figures import SPATIAL, draw_maps

KEY = "evaluate.accuracy"
GATE = "model.features.gate"
GATES = {
    "spatial": ("spatial attention", {"kind": "spatial"}),
    "spatial_released": ("spatial attention, as released", {"kind": "normalized_spatial"}),
    "channel": ("channel attention", {"kind": "channel", "reduction": 4}),
    "cbam": ("CBAM, both", {"kind": "cbam", "reduction": 4}),
    "cbam_released": ("CBAM, as released", {"kind": "normalized_cbam", "reduction": 4}),
    "sca": ("SCA, both as distributions", {"kind": "sca"}),
}
PRINTED = {
    "imagenet_resnet_50": "ResNet-50, ImageNet",
    "imagenet_se_resnet_50": "ResNet-50 + SE, ImageNet",
    "imagenet_cbam_resnet_50": "ResNet-50 + CBAM, ImageNet",
    "imagenet_cbam_resnet_50_released": "ResNet-50 + CBAM, released",
}
SMOKE = {"data.train_examples": 64, "data.test_examples": 32, "data.validation_examples": 32}
GPU = {**LONGER, "model.features.depth": 20, "data.train_examples": 32_000}


def focuses(results: Results) -> Verdict:
    """Gates that look at the object (mass on its cell above an even share's) and accuracy above both networks without
    gates: of spatial attention alone as the paper writes it. What its released form and the others do is told."""
    cases = {other: compare(results, "spatial", other, KEY, higher=True) for other in ("none", "wider")}
    cases["mass on the object"] = against(results, "spatial", "measure.mass", "measure.area")
    return conclude(cases).beside(*_said(results))


def _said(results: Results) -> Iterator[str]:
    for row in SPATIAL:
        found, area = results.mean(row, "measure.mass"), results.mean(row, "measure.area")
        accuracy = results.mean(row, KEY)
        if found is not None and area is not None and accuracy is not None:
            where = f"{100 * found:.0f} % of the map on the digit's cell against {100 * area:.0f} % of even gates"
            yield f"{row}: {where}, accuracy {accuracy:.1f} %"


STUDY = Study(
    rows=(
        Row("none", "no gate"),
        Row("wider", "no gate, a channel wider", at={"smoke": {"model.width": 3}, "cpu": {"model.width": 9},
                                                    "gpu": {"model.width": 17}}, scales=("cpu", "gpu")),
        *(Row(id, name, {GATE: gate}, scales=None if id == "cbam" else ("cpu", "gpu"))
          for id, (name, gate) in GATES.items()),
        *(Row(id, name, scales=()) for id, name in PRINTED.items()),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:placed", {**SMOKE, "model.width": 2, "training.steps": 4, "training.batch_size": 8,
                                            "training.schedule": {"kind": "constant"}}, seeds=1, jobs=2,
                       settings={"examples": 32}),
        "cpu": Scale(f"{CONFIG}:placed", seeds=3, jobs=2, settings={"examples": 2000}),
        "gpu": Scale(f"{CONFIG}:placed", GPU, seeds=5, settings={"examples": 2000}),
    },
    stages=(train, evaluate, measure(measure_gates)),
    columns=(
        PARAMETERS,
        FLOPS,
        LOSS,
        ACCURACY,
        Column("measure.mass", "mass on the digit's cell, %", fixed(1, 100), better="higher"),
        Column("measure.by_class", "channel gates' variance by class, %", fixed(1, 100)),
    ),
    published="cbam.csv",
    claims="../claims.csv",
    competence=(Competence("none", KEY, line=90, higher=True),),
    verdicts={"spatial-attention": focuses},
    figures=(by_row(ACCURACY), draw_maps),
    notes=(
        "Mass: the largest share over the stages, of their last blocks' gate maps, in the one cell of nine that holds "
        "the digit; even gates have 11.1 %. The printed cells of Table 4 were not checked against the paper.",
    ),
)  # fmt: skip
