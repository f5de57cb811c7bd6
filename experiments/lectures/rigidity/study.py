"""Basic self-attention, softmax(X X^T) X, as a rule that always rewards similarity: whom it hears, and what it cannot.

    attention-research reproduce lectures/rigidity --scale=cpu

Beginnings of BBC stories in the vectors of a real encoder (all-MiniLM-L6-v2, fetched from the package registry),
trained and as drawn: do weights rank tokens by their direction, and do outputs come out more alike
(`parallel_tokens`)? Trained (`readers`): each token names its most and its least similar other
token; and one layer of attention over vectors as they come (`inputs`): words of film reviews, patches of
MNIST, sets of numbers.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence

from .figures import draw_accuracies, draw_layers
from .parallel_tokens import measure_parallel
from .readers import measure_inputs, measure_unlike
from .verdicts import ENCODERS, INPUTS, KINDS, READERS, VERDICTS

LARGE = ("cpu", "gpu")
SIZES = {
    "checkpoint": "all-MiniLM-L6-v2",
    "news": "news/bbc",
    "stories": 32,
    "longest": 48,
    "sentences": "reviews/rotten_tomatoes",
    "task": {"tokens": 8, "directions": 8, "codes": 8},
    "sets": (16, 4, 10),
    "examples": 2048,
    "sizes": {"inner": 32, "hidden": 128},
    "steps": 1500,
    "batch_size": 64,
    "rate": 0.003,
}
STUDY = Study(
    rows=(
        *(Row(id, name, settings={"trained": trained}, stages=(measure(measure_parallel),),
              scales=LARGE if trained else None) for id, (name, trained) in ENCODERS.items()),
        *(Row(f"unlike_{kind}", f"other tokens: {name}", settings={"kind": kind}, stages=(measure(measure_unlike),),
              scales=None if kind == "learned" else LARGE) for kind, name in KINDS.items()),
        *(Row(f"{inputs}_{kind}", f"{said}: {KINDS[kind]}", settings={"inputs": inputs, "kind": kind},
              stages=(measure(measure_inputs),), scales=None if (inputs, kind) == ("largest", "basic") else LARGE)
          for inputs, said in INPUTS.items() for kind in READERS),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "stories": 2, "longest": 8, "steps": 2, "examples": 32}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=5, settings={**SIZES, "stories": 200, "steps": 20_000, "batch_size": 256}),
    },
    columns=(
        Column("measure.words_agreement", "weight ~ cosine, words", fixed(2)),
        Column("measure.words_before", "cosine of two tokens, before", fixed(2)),
        Column("measure.words_after", "after", fixed(2)),
        Column("measure.similar", "most similar, %", fixed(1, 100), better="higher"),
        Column("measure.dissimilar", "least similar, %", fixed(1, 100), better="higher"),
        Column("measure.accuracy", "accuracy, %", fixed(1, 100), better="higher"),
        Column("measure.majority", "one answer always, %", fixed(1, 100), spread=False),
    ),
    claims="../../claims.csv",
    # The first claim reads a published encoder.
    competence=(
        Competence(
            "unlike_learned",
            "measure.dissimilar",
            line=0.9,
            higher=True,
            claims=("basic-is-rigid",),
            rows=("unlike_learned",),
        ),
        Competence(
            "sentences_learned",
            "measure.accuracy",
            "majority",
            margin=0.15,
            higher=True,
            claims=("basic-fails-outside-language",),
            rows=("sentences_*",),
        ),
        Competence(
            "digits_learned",
            "measure.accuracy",
            line=0.9,
            higher=True,
            claims=("basic-fails-outside-language",),
            rows=("digits_*",),
        ),
        Competence(
            "largest_learned",
            "measure.accuracy",
            line=0.9,
            higher=True,
            claims=("basic-fails-outside-language",),
            rows=("largest_*",),
        ),
        Competence(
            "count_learned",
            "measure.accuracy",
            line=0.9,
            higher=True,
            claims=("basic-fails-outside-language",),
            rows=("count_*",),
        ),
        Competence(
            "duplicate_learned",
            "measure.accuracy",
            line=0.9,
            higher=True,
            claims=("basic-fails-outside-language",),
            rows=("duplicate_*",),
        ),
    ),
    untrained=("basic-favours-parallel-tokens",),
    verdicts=VERDICTS,
    figures=(draw_layers, draw_accuracies),
    notes=(
        "weight ~ cosine: Spearman's rank correlation of a token's weights on the others with its cosines with them.",
        "Most and least similar: by dot product, of the other seven tokens, which of eight codes it has; no token "
        "hears itself. Without attention a token knows its own code alone, which is what chance is here.",
        "Accuracy: Rotten Tomatoes (our split), 5,000 digits of MNIST (500 for test), sets of 4 to 10 numbers up to "
        "16. The vectors are given and not learned; each kind has the same reader behind it.",
    ),
)  # fmt: skip
