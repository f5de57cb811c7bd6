"""Woo et al. 2018: attention over the positions of an image, over its channels, and over both, in residual networks.

    attention-research reproduce woo2018/cbam --scale=cpu

The images have one coloured digit among grey pieces of digits (`data.placed_digits`), and the task is to classify the
digit. The networks are a residual network of 8 layers without gates, one wider by a channel, and networks with spatial
attention, channel attention, both (CBAM), or SCA-CNN's distributions in every block. Spatial attention and CBAM are
built as in the paper and as in the authors' release, which normalizes the logits. Measured are accuracy, cost, and the
share of a gate map in the cell of the digit, which is one ninth for uniform gates. The published errors are for
ImageNet with 50 layers.
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
    "imagenet_cbam_resnet_50_released": "ResNet-50 + CBAM, ImageNet, released",
}
SMOKE = {"data.train_examples": 64, "data.test_examples": 32, "data.validation_examples": 32}
GPU = {**LONGER, "model.features.depth": 20, "data.train_examples": 32_000}


def focuses(results: Results) -> Verdict:
    """Spatial attention as in the paper puts more mass on the object's cell than uniform gates, and its accuracy is
    above that of both networks without gates. The text also gives the released form and the other kinds."""
    cases = {other: compare(results, "spatial", other, KEY, higher=True) for other in ("none", "wider")}
    cases["mass on the object"] = against(results, "spatial", "measure.mass", "measure.area")
    return conclude(cases).beside(*_said(results))


def _said(results: Results) -> Iterator[str]:
    for row in SPATIAL:
        found, area = results.mean(row, "measure.mass"), results.mean(row, "measure.area")
        accuracy = results.mean(row, KEY)
        if found is not None and area is not None and accuracy is not None:
            where = f"{100 * found:.0f} % of the map on the digit's cell against {100 * area:.0f} % for uniform gates"
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
        Column("measure.by_class", "channel gate variance explained by class, %", fixed(1, 100)),
    ),
    published="cbam.csv",
    claims="../claims.csv",
    competence=(Competence("none", KEY, line=90, higher=True),),
    verdicts={"spatial-attention": focuses},
    figures=(by_row(ACCURACY), draw_maps),
    notes=(
        "Mass: the share of a gate map in the cell, one of nine, that holds the digit, for the last block of the stage "
        "with the largest share; uniform gates have 11.1 %. The published error is that of the released network; we "
        "could not read the paper's Table 4.",
    ),
)  # fmt: skip
