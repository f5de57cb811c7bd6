"""Wang et al. 2020 (Linformer), Figure 1: the spectrum of attention maps, before and after training.

    attention-research reproduce linformer2020/figure1 --scale=cpu

The models are a published encoder (all-MiniLM-L6-v2, fetched from the package registry) on film reviews, and masked
language models of film reviews that are trained here. Each is compared with the same model before training
(`map_spectra`). The paper uses RoBERTa on 512 tokens.
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
        Column("measure.rank", "share of values for 90 %", significant(2), better="lower"),
        Column("measure.initial_rank", "share before training", significant(2)),
        Column("measure.first", "share, first layer", significant(2)),
        Column("measure.last", "share, last layer", significant(2)),
    ),
    claims="../claims.csv",
    # The verdict uses only the imported encoder, which is a published model. The row `masked` is not evaluated.
    competence=(),
    verdicts={"linformer-low-rank": low_rank},
    figures=(draw,),
    notes=(
        "Share of values for 90 %: the share of a map's largest singular values that make up 90 % of their sum, "
        "averaged over heads, layers and texts of 128 tokens. The seeds of the first row only draw the untrained "
        "model. No score of the second row is measured: the verdict uses only the first row, a published model.",
    ),
)  # fmt: skip
