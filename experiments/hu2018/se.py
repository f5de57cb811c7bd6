"""Hu et al. 2018: squeeze-and-excitation, which weights every channel of every block, in residual networks.

    attention-research reproduce hu2018/se --scale=cpu

The rows are a residual network of 20 layers without gates, with squeeze-and-excitation, with the channel attention of
CBAM (mean and maximum), and one without gates that is wider by one channel. Measured are accuracy, parameters and
FLOPs, and the share of the gates' variance over images that classes explain. The published errors are for ImageNet with
50 and 101 layers. At `cpu` the data are Fashion-MNIST images at half their side, and r = 4, because the paper's r = 16
would leave a bottleneck of one or two units.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import ACCURACY, FLOPS, LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import by_row
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

from ..he2015.networks import CONFIG, GPU
from .gate_measures import measure_gates

KEY = "evaluate.accuracy"
GATE = "model.features.gate"
PRINTED = {
    "imagenet_resnet_50": "ResNet-50, ImageNet",
    "imagenet_se_resnet_50": "SE-ResNet-50, ImageNet",
    "imagenet_resnet_101": "ResNet-101, ImageNet",
    "imagenet_se_resnet_101": "SE-ResNet-101, ImageNet",
    "imagenet_se_resnet_50_released": "SE-ResNet-50, released",
    "imagenet_se_resnet_101_released": "SE-ResNet-101, released",
}


def helps(results: Results) -> Verdict:
    """Accuracy with gates is above that without gates, and above that of a network wider by one channel.

    The text also gives how much of the gates' variance classes explain.
    """
    cases = {
        f"{gate} against {other}": compare(results, gate, other, KEY, higher=True)
        for gate in ("squeeze_excitation", "channel")
        for other in ("none", "wider")
    }
    found = conclude(cases)
    said = []
    for gate in ("squeeze_excitation", "channel"):
        share, more = results.mean(gate, "measure.by_class"), _overhead(results, gate)
        if share is not None:
            said.append(f"{gate}: classes explain {100 * share:.0f} % of the variance of the last gates{more}")
    return found.beside(*said)


def _overhead(results: Results, gate: str) -> str:
    """Describes the number of additional parameters, if both rows are counted."""
    ours, theirs = (results.mean(row, "inspect.parameters") for row in (gate, "none"))
    return "" if ours is None or theirs is None else f", {ours - theirs:,.0f} more parameters than without"


STUDY = Study(
    rows=(
        Row("none", "no gate"),
        Row("wider", "no gate, a channel wider", at={scale: {"model.width": width} for scale, width in
                                                    (("smoke", 3), ("cpu", 9), ("gpu", 17), ("paper", 17))}),
        *(Row(kind, name, {GATE: {"kind": kind}}, at={scale: {GATE: {"kind": kind, "reduction": 4}}
                                                      for scale in ("smoke", "cpu", "gpu")})
          for kind, name in (("squeeze_excitation", "squeeze-and-excitation"), ("channel", "mean and maximum"))),
        *(Row(id, name, scales=()) for id, name in PRINTED.items()),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 32}),
        "cpu": Scale(f"{CONFIG}:fashion", seeds=5, jobs=2, settings={"examples": 2000}),
        "gpu": Scale(f"{CONFIG}:fashion", GPU, seeds=5, settings={"examples": 10_000}),
        "paper": Scale(f"{CONFIG}:cifar10", seeds=5, settings={"examples": 10_000}),
    },
    stages=(train, evaluate, measure(measure_gates)),
    columns=(
        PARAMETERS,
        FLOPS,
        LOSS,
        ACCURACY,
        Column("measure.by_class", "gate variance explained by class, %", fixed(1, 100)),
    ),
    published="se.csv",
    claims="../claims.csv",
    # On Fashion-MNIST a linear classifier reaches 84 %, nearest neighbours 85 %, small CNNs 90 % and more.
    competence=(Competence("none", KEY, line=88, higher=True),),
    verdicts={"channel-attention": helps},
    figures=(by_row(ACCURACY),),
    notes=("`paper` is ResNet-20 on CIFAR-10 with r = 16; the published cells are for ImageNet.",),
)  # fmt: skip
