"""Li et al. 2018: the loss surface around trained networks with and without residual connections.

    attention-research reproduce li2018/landscape --scale=cpu

The networks are the residual and plain networks of `he2015/degradation` with 20 and 56 layers. After training, the
training loss is computed on a grid of two random, filter-normalized directions (`loss_surface`). The study draws
contours and surfaces on the same axes. It measures the share of the grid with negative curvature, and how far the
surface is from a paraboloid. The paper draws ResNet-56 on CIFAR-10 on a grid of 51 x 51; it has figures and maps of
curvatures, but no table.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import ACCURACY, LOSS, PARAMETERS, Column, fixed, significant
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FIGURE, UNTESTED, Verdict, compare, conclude

from ..he2015.networks import CONFIG, GPU, KINDS
from .landscape_figures import DEPTHS, draw_contours, draw_surfaces
from .loss_surface import measure_surface

#: The key of a measure of roughness -> its name.
MEASURES = {"negative": "share that bends down", "roughness": "variance that no paraboloid explains"}


def smoother(results: Results) -> Verdict:
    """The surface is smoother with residual connections than without them, at both depths and by both measures."""
    cases = {
        f"{depth} layers, {name}": compare(results, f"residual_{depth}", f"plain_{depth}", f"measure.{key}")
        for depth in DEPTHS
        for key, name in MEASURES.items()
    }
    return conclude(cases)


def drawn(results: Results) -> Verdict:
    """Both surfaces of one depth are drawn on the same grid. They decide nothing."""
    both = lambda depth: (results.values(f"{kind}_{depth}", "measure.surface") for kind in ("plain", "residual"))
    there = [depth for depth in DEPTHS if all(both(depth))]
    if not there:
        return Verdict(UNTESTED, "no pair of surfaces is measured")
    said = ", ".join(f"{depth} layers" for depth in there)
    return Verdict(FIGURE, f"figures/loss_contours.png and figures/loss_surfaces.png: {said}, first seed, same axes")


VERDICTS = {"residuals-smooth-landscape": smoother, "landscape-figure": drawn}
STUDY = Study(
    rows=tuple(
        Row(
            f"{kind}_{depth}",
            f"{kind}, {depth} layers",
            {"model.features.depth": depth, "model.features.shortcut.kind": shortcut},
            at={"smoke": {"model.features.depth": 8, "model.features.shortcut.kind": shortcut}},
            scales=None if depth == DEPTHS[-1] else ("cpu", "gpu", "paper"),
        )
        for depth in DEPTHS
        for kind, shortcut in KINDS.items()
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 16, "points": 5}),
        "cpu": Scale(f"{CONFIG}:fashion", seeds=3, jobs=2, settings={"examples": 256, "points": 21}),
        "gpu": Scale(f"{CONFIG}:fashion", GPU, seeds=3, settings={"examples": 2048, "points": 51}),
        "paper": Scale(f"{CONFIG}:cifar10", seeds=3, settings={"examples": 8192, "points": 51}),
    },
    stages=(train, evaluate, measure(measure_surface)),
    columns=(
        PARAMETERS,
        LOSS,
        ACCURACY,
        Column("measure.negative", "negative curvature, % of grid", fixed(0, 100), better="lower"),
        Column("measure.bends", "mean |smaller / larger curvature|", fixed(2)),
        Column("measure.roughness", "variance not explained by a paraboloid, %", fixed(1, 100), better="lower"),
        Column("measure.centre", "loss at the centre", significant(3)),
        Column("measure.largest", "largest loss on the grid", significant(3)),
    ),
    claims="../claims.csv",
    # On Fashion-MNIST a linear classifier reaches 84 %, nearest neighbours 85 %, small CNNs 90 % and more.
    competence=(Competence("residual_20", "evaluate.accuracy", line=88, higher=True),),
    verdicts=VERDICTS,
    figures=(draw_contours, draw_surfaces),
    notes=(
        "The loss is that of training examples in evaluation mode. As in the paper's code, all points use the running "
        "moments of the centre of the grid.",
    ),
)  # fmt: skip
