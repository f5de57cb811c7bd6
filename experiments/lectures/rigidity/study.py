"""Basic self-attention, softmax(X X^T) X, always favours similar tokens: which tokens get weight, and what it cannot
do.

    attention-research reproduce lectures/rigidity --scale=cpu

`parallel_tokens` reads the beginnings of BBC stories as vectors of an encoder (all-MiniLM-L6-v2, fetched from the
package registry), trained and with random weights. It measures whether attention weights rank tokens by their direction
and whether the outputs are more similar than the inputs. `readers` trains two kinds of models: models in which each
token names its most or its least similar other token, and models with one layer of attention over fixed vectors
(`inputs`) of words of film reviews, patches of MNIST, and sets of numbers.
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
        Column("measure.words_before", "cosine before attention", fixed(2)),
        Column("measure.words_after", "cosine after attention", fixed(2)),
        Column("measure.similar", "most similar, %", fixed(1, 100), better="higher"),
        Column("measure.dissimilar", "least similar, %", fixed(1, 100), better="higher"),
        Column("measure.accuracy", "accuracy, %", fixed(1, 100), better="higher"),
        Column("measure.majority", "majority class, %", fixed(1, 100), spread=False),
    ),
    claims="../../claims.csv",
    # The first claim uses a published encoder.
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
        "weight ~ cosine: Spearman's rank correlation of a token's weights on the other tokens with its cosines with "
        "them. Cosine before and after attention: the mean cosine of two tokens.",
        "Most and least similar, %: accuracy of predicting which of eight codes the most or least similar of the other "
        "seven tokens has, by dot product. A token does not attend to itself. Without attention a token knows only its "
        "own code, which gives the chance level.",
        "Accuracy: Rotten Tomatoes (own split), 5,000 digits of MNIST (500 for testing), sets of 4 to 10 numbers up to "
        "16. The vectors are fixed; all kinds of attention have the same layers after them.",
    ),
)  # fmt: skip
