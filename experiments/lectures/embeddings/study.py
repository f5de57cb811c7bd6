"""Token embeddings: a lookup, how they may be had, and how context moves them.

    attention-research reproduce lectures/embeddings --scale=cpu

Exact: a row of a table against a one-hot product. Topics of news stories by the mean of frozen random, TF-IDF and
pre-trained vectors and of learned ones, by number of labels (`choices`). A real encoder
(all-MiniLM-L6-v2, fetched from the package registry) reads eight ambiguous words in sentences of either sense, trained
and as drawn (`senses`).
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed, significant
from attention_research.studies.competence import Competence

from ..laws import exact
from .choices import measure_choice
from .figures import draw_choices, draw_layers, draw_word
from .senses import measure_senses
from .verdicts import CHOICES, LOOKUP, VERDICTS

ENCODERS = {"encoder": ("encoder, trained", True), "encoder_drawn": ("encoder, as drawn", False)}
LARGE = ("cpu", "gpu")
SIZES = {
    **exact.DRAWS,
    "checkpoint": "all-MiniLM-L6-v2",
    "shown": "bank",
    "news": "news/bbc",
    "labels": (16, 64, 256, 1024, 1942),
    "width": 384,
    "learned_width": 64,
}
STUDY = Study(
    rows=(
        exact.row(LOOKUP, "a row of a table is a product"),
        *(Row(choice, name, settings={"choice": choice}, stages=(measure(measure_choice),), scales=LARGE)
          for choice, name in CHOICES.items()),
        *(Row(id, name, settings={"trained": trained}, stages=(measure(measure_senses),),
              scales=None if trained else LARGE)
          for id, (name, trained) in ENCODERS.items()),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "learned_width": 384}),
    },
    columns=(
        *exact.COLUMNS,
        Column("measure.few", "topics, 16 labels, %", fixed(1, 100), better="higher"),
        Column("measure.all", "topics, 1,942 labels, %", fixed(1, 100), better="higher"),
        Column("measure.gap_input", "senses apart, input", significant(2)),
        Column("measure.gap_last", "senses apart, last layer", significant(2), better="higher"),
    ),
    claims="../../claims.csv",
    # Five topics of news. The senses are read off a published encoder.
    competence=(
        Competence(
            "learned", "measure.all", line=0.9, higher=True, claims=("embedding-choices-ranked",), rows=tuple(CHOICES)
        ),
    ),
    untrained=("embeddings-moved-by-context", "embedding-context-figure"),
    verdicts=VERDICTS,
    figures=(draw_choices, draw_layers, draw_word),
    notes=(
        exact.NOTE,
        "Topics: five of BBC stories, chance 22 %; the seed draws vectors and labels. Senses apart: the mean cosine of "
        "a word's states within a sense, less that across its two senses.",
    ),
)  # fmt: skip
