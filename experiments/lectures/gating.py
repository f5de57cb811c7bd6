"""Self-attention multiplies the features of different tokens; a fixed linear mixing of positions cannot.

    attention-research reproduce lectures/gating --scale=cpu

Exact statements, in float64: mixed second derivatives of a mixer's output with respect to two tokens. Trained models
(`laws.gating`) learn a product of features of two tokens: the value of the token whose key another token asks for. The
mixers are attention with one head, a learned matrix over positions, and such a matrix with a gate of the token itself.
"""

from __future__ import annotations

from pathlib import Path

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed, significant
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, canvas, caption, rows_as_points, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, against, compare, conclude, decide

from .laws import exact
from .laws.gating import measure_product

CLAIM, ERROR = "gating-interactions", "measure.error"
#: The product counts as learned if the error is below this value.
LEARNED = 0.5


def gates(results: Results) -> Verdict:
    """The law holds, and the error of attention on products is clearly below that of ungated mixing and of 0.5."""
    found = exact.exact(CLAIM)(results)
    attention, gated = (compare(results, row, "ungated", ERROR) for row in ("attention", "gated"))
    learned = against(results, "attention", ERROR, LEARNED, higher=False)
    trained = conclude({"attention, trained": attention, "the product is learned": learned})
    return decide({**found.cases, **trained.cases}, f"gated mixing, trained: {gated.said}")


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the error of every trained row, with one point for each seed."""
    rows = [row for row in results.rows if results.values(row.id, ERROR)]
    if not rows:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(7.4, 1.1 + 0.5 * len(rows)))
    rows_as_points(axis, {row.name: results.values(row.id, ERROR) for row in rows})
    axis.axvline(1.0, color="grey", linewidth=1)
    axis.set_xscale("log")
    axis.set_xlabel("mean squared error / variance of the product")
    where = folder / "product.png"
    save(
        figure,
        where,
        caption(results, "points: seeds, bars: mean, grey line: a constant prediction", rows=[row.id for row in rows]),
    )
    said = "; ".join(f"{row.name} {results.mean(row.id, ERROR):.2g}" for row in rows)
    return Figure(where, "Products of two tokens", f"Error: {said}.")


MIXERS = {"attention": "attention", "gated": "gated mixing", "ungated": "ungated mixing"}
SIZES = {**exact.DRAWS, "length": 8, "width": 8, "num_heads": 1, "steps": 3000, "batch_size": 64,
         "rates": (0.001, 0.003, 0.01)}  # fmt: skip
STUDY = Study(
    rows=(
        exact.row(CLAIM, "two tokens' second derivative"),
        *(Row(mixer, name, settings={"mixer": mixer}, stages=(measure(measure_product),),
              scales=None if mixer == "ungated" else ("cpu", "gpu")) for mixer, name in MIXERS.items()),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1, "steps": 20, "rates": (0.01,)}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "steps": 30_000}),
    },
    columns=(
        *exact.COLUMNS,
        Column(ERROR, "error / variance", significant(2), better="lower"),
        Column("measure.parameters", "parameters", fixed(0), spread=False),
    ),
    claims="../claims.csv",
    # An error of 0.1 means that 90 % of the variance is explained.
    competence=(Competence("attention", "measure.error", line=0.1),),
    verdicts={CLAIM: gates},
    figures=(draw,),
    notes=(
        exact.NOTE,
        "Error / variance: mean squared error on new sequences divided by the variance of the product, at the best of "
        "three learning rates. A model that always predicts the mean gets 1.",
    ),
)  # fmt: skip
