"""Wang et al. 2020 (Linformer), Figure 1: the spectrum of attention maps, trained and as drawn.

    attention-research reproduce linformer2020/figure1 --scale=cpu

A real trained encoder (all-MiniLM-L6-v2, fetched from the package registry) on film reviews, and masked language models
of film reviews trained here, each beside the same model before training (`map_spectra`). The paper's is
RoBERTa on 512 tokens.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure, train
from attention_research.studies.columns import Column, significant

from ..haviv2022.nopos import SMOKE, masked
from ..haviv2022.schemes import CONFIG
from .figure1_verdicts import draw, low_rank
from .map_spectra import measure_imported, measure_trained

SIZES = {"examples": 64, "length": 128, "text": "reviews/imdb"}
STUDY = Study(
    rows=(
        Row("minilm", "all-MiniLM-L6-v2", settings={"checkpoint": "all-MiniLM-L6-v2"},
            stages=(measure(measure_imported),), scales=("cpu", "gpu")),
        Row("masked", "masked language model", masked({}), at={"smoke": {**masked({}), **SMOKE}},
            stages=(train, measure(measure_trained))),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, settings={**SIZES, "examples": 2}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, replicas=True, settings=SIZES),
        "gpu": Scale(f"{CONFIG}:cpu", {"training.steps": 10_000}, seeds=3, settings={**SIZES, "length": 512}),
    },
    columns=(
        Column("measure.rank", "values for 90 %", significant(2), better="lower"),
        Column("measure.initial_rank", "before training", significant(2)),
        Column("measure.first", "first layer", significant(2)),
        Column("measure.last", "last layer", significant(2)),
    ),
    claims="../claims.csv",
    # The verdict rests on the imported encoder alone, which others have trained. The row `masked` is not evaluated.
    competence=(),
    verdicts={"linformer-low-rank": low_rank},
    figures=(draw,),
    notes=(
        "The share of a map's singular values that holds nine tenths of their sum: means over heads, layers and texts "
        "of 128 tokens. The seeds of the first row draw the untrained model alone. "
        "No score of the second row is measured: the verdict rests on the first, a published model.",
    ),
)  # fmt: skip
