"""Hu et al. 2018: squeeze-and-excitation, a weight for every channel of every block, in residual networks.

    attention-research reproduce hu2018/se --scale=cpu

A 20-layer residual network without gates, with squeeze-and-excitation, with CBAM's channel attention (mean and
maximum), and one a channel wider in place of a gate: accuracy, parameters and FLOPs, and how much of a gate's variation
over images their classes explain. The printed errors are of ImageNet with 50 and 101 layers. At `cpu` on Fashion-MNIST
at half its side, with r = 4, where the paper's 16 would leave a bottleneck of one or two.
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
    """Accuracy with gates against none, and against a network a channel wider; what gates know of classes beside."""
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
            said.append(f"{gate}: classes explain {100 * share:.0f} % of the last gates' variance{more}")
    return found.beside(*said)


def _overhead(results: Results, gate: str) -> str:
    """Parameters more than without, where both are counted."""
    ours, theirs = (results.mean(row, "inspect.parameters") for row in (gate, "none"))
    return "" if ours is None or theirs is None else f", {ours - theirs:,.0f} parameters more than without"


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
        Column("measure.by_class", "gates' variance by class, %", fixed(1, 100)),
    ),
    published="se.csv",
    claims="../claims.csv",
    # Fashion-MNIST: a linear classifier has 84 %, the nearest neighbours 85, small convolutional networks 90 and more.
    competence=(Competence("none", KEY, line=88, higher=True),),
    verdicts={"channel-attention": helps},
    figures=(by_row(ACCURACY),),
    notes=("`paper` is ResNet-20 on CIFAR-10 with r = 16; the printed cells are of ImageNet.",),
)  # fmt: skip
