"""Token embeddings: lookup, kinds of word vectors, and the effect of context.

    attention-research reproduce lectures/embeddings --scale=cpu

Exact: looking up a row of a table equals a product with a one-hot vector. Classification (`choices`): topics of news
stories are predicted from the mean of frozen random, TF-IDF or pre-trained vectors, or of learned vectors, by number of
labels. Context (`senses`): an encoder (all-MiniLM-L6-v2, fetched from the package registry), trained and with random
weights, reads eight ambiguous words in sentences of either sense.
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
        Column("measure.few", "accuracy, 16 labels, %", fixed(1, 100), better="higher"),
        Column("measure.all", "accuracy, 1,942 labels, %", fixed(1, 100), better="higher"),
        Column("measure.gap_input", "gap of senses, input", significant(2)),
        Column("measure.gap_last", "gap of senses, last layer", significant(2), better="higher"),
    ),
    claims="../../claims.csv",
    # The task has five news topics. The senses are measured on a published encoder.
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
        "Accuracy: five topics of BBC stories; chance is 22 %. The seed draws the vectors and the labels. Gap of "
        "senses: the mean cosine of a word's states within a sense minus that across its two senses.",
    ),
)  # fmt: skip
