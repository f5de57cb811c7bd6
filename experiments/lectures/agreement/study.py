"""How few source words a target word needs, and an article that a distant noun decides: fixed vector against attention.

    attention-research reproduce lectures/agreement --scale=cpu

Two languages: Bible verses, English to French, and generated sentences of which every source word becomes one target
word, with 0 to 8 adjectives between an article and its noun (`data.articles`). Three models, 128 wide: RNNencdec, whose
decoder has one fixed vector of the source (the last state of a reader from left to right), RNNsearch, and a Transformer
of two layers a side.

Few words: the mass of attention on the largest one, two and three weights of a step, and BLEU with all others at 0
(`few_source_words`). Gender: whether the article's form is likelier than the other gender's before the noun is
written, by the number of words between the two (`article_gender`).
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Stage, Study, evaluate, measure, train
from attention_research.studies.columns import BLEU, LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence

from ..interpretability.study import transformer
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
    """A row of the generated language; `small` stands for the model's changes at smoke."""
    smoke = {**small, **GENERATED, "data": {**GENERATED["data"], "train_examples": 512}}
    return Row(f"{id}_generated", f"{name}, generated", {**changes, **GENERATED}, at={"smoke": smoke},
               stages=(train, evaluate, *stages))  # fmt: skip


STUDY = Study(
    rows=(
        generated("encdec", "RNNencdec", FIXED_VECTOR, FIXED_VECTOR, GENDER),
        generated("rnnsearch", "RNNsearch", {}, {}, GENDER, FEW),
        generated("transformer", "Transformer", transformer(128), transformer(16), GENDER, FEW),
        Row("rnnsearch", "RNNsearch, verses", stages=(train, evaluate, FEW), scales=("cpu", "gpu")),
        Row("transformer", "Transformer, verses", transformer(128), stages=(train, evaluate, FEW),
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
        Column("measure.gender", "article's gender right, %", fixed(1, 100), better="higher"),
        Column("measure.near", "noun near, %", fixed(1, 100), better="higher"),
        Column("measure.far", "noun far, %", fixed(1, 100), better="higher"),
        *(Column(f"measure.mass_{k}", f"mass on {k}", fixed(2)) for k in (1, 2, 3)),
        *(Column(f"measure.kept_{k}", f"BLEU with {k} alone, % of whole", fixed(0, 100)) for k in (1, 2, 3)),
    ),
    claims="../../claims.csv",
    # A generated sentence has one right translation.
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
        "Gender: chance is 50 %; near and far are the shortest and the longest third of 0 to 8 words between.",
        "Mass: of the largest weights of a step, of a Transformer those of the heads' mean, a mean over its layers. "
        "BLEU with k alone: in each layer all weights but those on k tokens are 0, and are not made up for.",
    ),
)  # fmt: skip
