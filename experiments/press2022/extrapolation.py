"""Press, Smith & Lewis 2022: train short, test long, by position scheme.

    attention-research reproduce press2022/extrapolation --scale=cpu

Causal language models of film reviews, read by character at `cpu`, are trained on rows of 128 tokens and tested on rows
that are 1, 2, 4 and 8 times as long, of the same text. As in the paper, they are parts of the running text; one row of
the table has models whose training rows each end with the end of sentence. Learned positions have a table of 1,024
rows, of which training reaches the first 128. For a row that is longer than the table the layer raises an error.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from attention_research.studies import Budget, Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PERPLEXITY, Column, significant
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, canvas, caption, legend, mark_plainly, row_styles, save
from attention_research.studies.results import Results

from ..haviv2022.schemes import CHARACTERS, CONFIG, MASKED_CHARACTERS, NONE, RUNNING, SCHEMES, UNROLLED
from .measures import measure_lengths
from .verdicts import VERDICTS

#: With the scale, as in the other rows: Press et al. compare positions in one model.
T5 = {"kind": "t5_scaled", "num_buckets": 32, "max_distance": 128}
ROWS = {
    "sinusoidal": SCHEMES["sinusoidal"],
    "learned": SCHEMES["learned"],
    "t5": ("T5 bias", {**NONE, "model.self_attention": T5}),
    "rotary": ("rotary", {**NONE, "model.self_attention": {"kind": "rotary"}}),
    "alibi": SCHEMES["alibi"],
    "none": SCHEMES["none"],
}
#: ALiBi on rows that end with the end of sentence.
CLOSED: dict[str, Any] = {
    **SCHEMES["alibi"][1],
    "vocabulary_size": MASKED_CHARACTERS["vocabulary_size"],
    "data": {**MASKED_CHARACTERS["data"], "objective": {"kind": "language_model"}, "max_length": 128},
}
FACTORS = (1, 2, 4, 8)
#: The text of the smoke test.
SMALL = {**RUNNING, "name": "reviews/rotten_tomatoes", "max_length": 32}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the perplexity against the row length, and the loss by position in the longest rows.

    The row whose training rows have an end is left out: its perplexity of a million would hide the others.
    """
    rows = [row for row in results.rows if row.id in ROWS and results.values(row.id, "measure.perplexity_1")]
    if not rows:
        return None
    settings, pyplot = results.settings, canvas()
    factors = settings["factors"]
    figure, axes = pyplot.subplots(1, 2, figsize=(10.5, 4.8))
    looks = row_styles(results)
    for row in rows:
        style = {**looks[row.id], "linewidth": 1.5, "markersize": 5}
        means = [statistics.fmean(results.values(row.id, f"measure.perplexity_{factor}")) for factor in factors]
        places = [statistics.fmean(at) for at in zip(*results.values(row.id, "measure.by_place"), strict=True)]
        axes[0].plot(factors, means, label=row.name, **style)
        axes[1].plot([max(factors) * (n + 0.5) / len(places) for n in range(len(places))], places, **style)
    axes[0].set_xscale("log", base=2)
    axes[0].set_xticks(factors, [str(factor) for factor in factors])
    axes[0].set_yscale("log")
    mark_plainly(axes[0].yaxis)
    axes[0].set_ylabel("perplexity per token")
    axes[1].set_ylabel("loss, nats per token")
    legend(figure, columns=6)
    for axis, label in zip(
        axes, ("length of the text / training length", "position in the longest texts / training length"), strict=True
    ):
        axis.set_xlabel(label)
    where = folder / "extrapolation.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=[row.id for row in rows]))
    said = "; ".join(
        f"{row.name} {statistics.fmean(results.values(row.id, f'measure.ratio_{max(factors)}')):.2f}" for row in rows
    )
    return Figure(
        where, "Perplexity beyond the training length", f"Ratio at {max(factors)} times the training length: {said}."
    )


STUDY = Study(
    rows=tuple(
        Row(id, name, overrides, scales=None if id in ("learned", "alibi") else ("cpu", "gpu"))
        for id, (name, overrides) in ROWS.items()
    )
    + (Row("alibi_closed", "ALiBi, rows with an end", CLOSED, scales=("cpu",)),),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", {"max_length": 128, "data": SMALL}, seeds=1, jobs=2,
                       settings={"factors": (1, 2, 4), "tokens": 256}),
        "cpu": Scale(f"{CONFIG}:cpu", {**CHARACTERS, **UNROLLED, "max_length": 1024, "data.max_length": 128},
                     seeds=3, jobs=2, replicas=True,
                     settings={"factors": FACTORS, "tokens": 65_536}),
        "gpu": Scale(f"{CONFIG}:cpu", {"max_length": 4096, "data": {**RUNNING, "max_length": 512},
                                       "model.num_layers": 12, "model.width": 512, "model.num_heads": 8,
                                       "training.steps": 20_000},
                     seeds=3, settings={"factors": FACTORS, "tokens": 1_048_576}),
    },
    stages=(train, evaluate, measure(measure_lengths)),
    columns=(
        *(
            Column(f"measure.perplexity_{factor}", f"perplexity at {factor}x", significant(3), better="lower")
            for factor in FACTORS
        ),
        Column("measure.ratio_8", "perplexity, 8x / 1x", significant(3), better="lower"),
        PERPLEXITY,
    ),
    budgets=(Budget("sinusoidal", {"alibi": ("t5", "rotary"), "none": ()}),),
    published="extrapolation.csv",
    claims="../claims.csv",
    competence=(Competence("alibi", "evaluate.perplexity", "trigram", rows=tuple(ROWS)),),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(
        "Rows do not overlap and have the same text at every length; with longer rows fewer tokens have little "
        "context. The published perplexities are for WikiText-103, trained and tested at 3,072 tokens.",
        "Rows with an end: the last token of every training row is the end of sentence, at position 128. Their "
        "perplexity counts that token, and is not comparable with that of the other rows.",
    ),
)  # fmt: skip
