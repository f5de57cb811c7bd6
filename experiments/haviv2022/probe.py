"""Haviv et al. 2022, Figure 2: how well positions can be predicted from the states of a causal language model, by
layer.

    attention-research reproduce haviv2022/probe --scale=cpu

The models are those of `haviv2022/nopos` on rows of 128 tokens. A probe reads the states of each layer
(`analysis.position_probe`) before and after training. The published curve is for 24 layers and 1,024 positions. To
compare it with ours, distances are divided by the number of positions, and layers by the number of layers.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from attention_research.analysis.position_probe import measure_probe
from attention_research.studies import Budget, Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PERPLEXITY, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, decide

from .schemes import CHARACTERS, CONFIG, SCHEMES

#: The number of positions of the published curve.
PRINTED_POSITIONS = 1024
#: A state carries position information if the error of its probe is below this factor times that of a blind guess (a
#: quarter of the row).
NEAR = 0.5


def carried(results: Results) -> Verdict:
    """Without positions the error of the probe is below half of that of a blind guess and below that of an untrained
    model."""
    errors, untrained = (results.mean_list("none", f"measure.{name}") for name in ("errors", "errors_untrained"))
    if not errors:
        return Verdict(UNTESTED, "the model without positions is not trained")
    (middle, *_) = results.values("none", "measure.middle")
    said = [f"{SCHEMES[row][0]}: {_numbers(curve)}" for row in SCHEMES
            if (curve := results.mean_list(row, "measure.errors"))]  # fmt: skip
    least = f"{min(errors):.1f} against"
    cases = {
        "below half of a blind guess": Case.ruled(min(errors) <= NEAR * middle, f"{least} {middle:.1f}, the middle"),
        "below that of the first layer": Case.ruled(min(errors) < errors[0], f"{least} {errors[0]:.1f}"),
        "below that of an untrained model": Case.ruled(min(errors) < min(untrained), f"{least} {min(untrained):.1f}"),
    }
    return decide(cases, "error in tokens by layer", *said, f"no positions, untrained: {_numbers(untrained)}")


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the error by layer, divided by the row length: ours, an untrained model (dotted), the published curve
    (thin).
    """
    curves = {row: curve for row in SCHEMES if (curve := results.mean_list(row, "measure.errors"))}
    if not curves:
        return None
    with open(results.study.file("figure2.csv"), encoding="utf-8", newline="") as file:
        printed = list(csv.DictReader(file))
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.6), sharey=True)
    for (row, (name, _)), colour in zip(SCHEMES.items(), COLOURS, strict=False):
        theirs = [float(line[row]) / PRINTED_POSITIONS for line in printed]
        axes[1].plot(range(len(theirs)), theirs, "o-", color=colour, linewidth=1.6, markevery=4, label=name)
        if row in curves:
            length = 4 * results.values(row, "measure.middle")[0]
            axes[0].plot([x / length for x in curves[row]], "o-", color=colour, linewidth=1.6, label=name)
            before = results.mean_list(row, "measure.errors_untrained")
            axes[0].plot([x / length for x in before], ":", color=colour, linewidth=1.4, label=f"{name}, untrained")
    for axis, title in zip(axes, ("this study", "published (Figure 2)"), strict=True):
        axis.axhline(0.25, color="#888888", linewidth=1.2, label="always the middle position")
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xlabel("layer (0: embeddings)")
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("mean distance from the true position\n/ number of positions")
    legend(figure, columns=3)
    where = folder / "probe.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=list(curves)))
    said = "; ".join(f"{SCHEMES[row][0]}: {_numbers(curve)}" for row, curve in curves.items())
    return Figure(where, "Position probe by layer", f"Mean distance in tokens, from the embeddings on. {said}.")


STUDY = Study(
    rows=tuple(
        Row(id, name, overrides, scales=None if id == "none" else ("cpu", "gpu"))
        for id, (name, overrides) in SCHEMES.items()
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, settings={"probed": 8, "examples": 8, "steps": 4}),
        "cpu": Scale(f"{CONFIG}:cpu", CHARACTERS, seeds=3, jobs=2, replicas=True),
        "gpu": Scale(f"{CONFIG}:cpu", {"model.num_layers": 12, "training.steps": 10_000}, seeds=3),
    },
    stages=(train, evaluate, measure(measure_probe)),
    columns=(
        Column("measure.first", "error, embeddings", fixed(1)),
        Column("measure.best", "error, best layer", fixed(1)),
        Column("measure.last", "error, last layer", fixed(1)),
        Column("measure.best_untrained", "error, best layer, untrained", fixed(1)),
        PERPLEXITY,
    ),
    budgets=(Budget("sinusoidal", {"none": ()}),),
    claims="../claims.csv",
    competence=(Competence("none", "evaluate.perplexity", "trigram"),),
    verdicts={"position-probe-by-layer": carried},
    figures=(draw,),
    notes=(
        "Error: the mean distance of the predicted position from the true one, in tokens, on rows of held-out text. "
        "Random guessing has an error of (T^2 - 1) / 3T, always guessing the middle T / 4: 42.7 and 32 for T = 128.",
    ),
)
