"""How many source words a target word needs, and gender agreement with a distant noun: fixed vector against attention.

    attention-research reproduce lectures/agreement --scale=cpu

There are two data sets: Bible verses, English to French, and generated sentences with 0 to 8 adjectives between an
article and its noun (`data.articles`). In the generated sentences every source word becomes one target word. Three
models of width 128 are compared: RNNencdec, whose decoder gets one fixed vector of the source (the last state of a
left-to-right encoder), RNNsearch, and a Transformer with two encoder and two decoder layers.

`few_source_words` measures the attention mass of the largest one, two and three weights of a step, and BLEU with all
other weights at 0. `article_gender` measures whether the right form of the article is more probable than the form of
the other gender before the noun is written, by the number of words between article and noun.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Stage, Study, evaluate, measure, train
from attention_research.studies.columns import BLEU, LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence

from ..rnn_vs_transformer.models import post_norm
from .article_gender import measure_gender
from .few_source_words import measure_few
from .figures import draw_distances, draw_few
from .verdicts import VERDICTS

CONFIG = "configs/translation/recurrent.py"
FIXED_VECTOR = {"model.encoder": {"kind": "unidirectional"}, "model.alignment": {"kind": "last_state"}}
GENERATED = {
    "max_length": 24,
    "vocabulary_size": 160,
    "data": {
        "kind": "pairs",
        "name": "articles/adjectives",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (24,)},
    },
}
FEW, GENDER = measure(measure_few), measure(measure_gender)


def generated(id: str, name: str, changes: dict[str, Any], small: dict[str, Any], *stages: Stage) -> Row:
    """A row on generated sentences. At the scale smoke, `small` replaces the model's changes."""
    smoke = {**small, **GENERATED, "data": {**GENERATED["data"], "train_examples": 512}}
    return Row(f"{id}_generated", f"{name}, generated", {**changes, **GENERATED}, at={"smoke": smoke},
               stages=(train, evaluate, *stages))  # fmt: skip


STUDY = Study(
    rows=(
        generated("encdec", "RNNencdec", FIXED_VECTOR, FIXED_VECTOR, GENDER),
        generated("rnnsearch", "RNNsearch", {}, {}, GENDER, FEW),
        generated("transformer", "Transformer", post_norm(128), post_norm(16), GENDER, FEW),
        Row("rnnsearch", "RNNsearch, verses", stages=(train, evaluate, FEW), scales=("cpu", "gpu")),
        Row("transformer", "Transformer, verses", post_norm(128), stages=(train, evaluate, FEW),
            scales=("cpu", "gpu")),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 16}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings={"examples": 512}),
        "gpu": Scale(f"{CONFIG}:cpu", {"training.batch_size": 128}, seeds=3, settings={"examples": 1000}),
    },
    columns=(
        PARAMETERS,
        LOSS,
        BLEU,
        Column("measure.gender", "gender right, %", fixed(1, 100), better="higher"),
        Column("measure.near", "right, near noun, %", fixed(1, 100), better="higher"),
        Column("measure.far", "right, distant noun, %", fixed(1, 100), better="higher"),
        *(Column(f"measure.mass_{k}", f"mass of top {k}", fixed(2)) for k in (1, 2, 3)),
        *(Column(f"measure.kept_{k}", f"BLEU with top {k}, % of full", fixed(0, 100)) for k in (1, 2, 3)),
    ),
    claims="../../claims.csv",
    # A generated sentence has exactly one correct translation.
    competence=(
        Competence("transformer_generated", "evaluate.bleu", line=90, higher=True, rows=("*_generated",)),
        Competence(
            "transformer",
            "evaluate.perplexity",
            "trigram",
            claims=("translation-needs-few-source-words",),
            rows=("rnnsearch", "transformer"),
        ),
    ),
    verdicts=VERDICTS,
    figures=(draw_distances, draw_few),
    notes=(
        "Gender right: the share of articles with the right gender; chance is 50 %. Near and distant nouns are the "
        "shortest and the longest third of the distances, which are 0 to 8 words.",
        "Mass of top k: the sum of the k largest attention weights of a step; for a Transformer the weights are "
        "averaged over heads, and the sums over layers. BLEU with top k: in each layer all weights except those of k "
        "tokens are set to 0, and the remaining weights are not normalized.",
    ),
)  # fmt: skip
