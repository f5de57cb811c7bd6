"""Static against learned token weights for text classification: mean, IDF, TF-IDF, one weight per token, a query, and
attention.

    attention-research reproduce lectures/static_attention --scale=cpu
    attention-research reproduce lectures/static_attention --scale=cpu --rows=imdb_mean,imdb_idf,imdb_token_weight

A text is represented by one vector, the sum of a_j e_j over the embeddings e_j of its tokens, and classified by a
linear layer. The rows differ in the weights a_j. The data are IMDB reviews (10,000 for training) and BBC news (1,942),
split by text (not the official test sets, so that there are no published numbers to compare with); generated texts in
which the words that determine the class are frequent, or rare; and texts whose class is whether two unlike words belong
together. Every row is also trained from scratch on 100 and on 1,000 of its texts.

Papers and formulas: Sparck Jones 1972 (IDF); Yang et al. 2016 (a learned query); Mikolov et al. 2013 (skip-gram).
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PARAMETERS, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence

from .figures import POOLINGS, REAL, SETS, draw_marked, draw_moved, draw_sizes, draw_weights
from .measures import bag_of_words, fewer_texts, make_embedding, moved, scores, weights
from .verdicts import VERDICTS

CONFIG = "configs/classification/text.py"
BAG = "TF-IDF bag of words, logistic regression"
WEIGHTED = ("mean", "idf", "token_weight", "query")
KEPT = ("idf", "token_weight", "query")


def _stages(kind: str, set_: str) -> tuple:
    """The stages of a row with a pooling. A figure shows how attention moves a word of IMDB."""
    shown = (measure(moved),) if (set_, kind) == ("imdb", "self_attention") else ()
    return (train, evaluate, measure(fewer_texts), measure(weights, kept=kind in KEPT), *shown)


def _set(name: str, scale: str) -> dict[str, Any]:
    """The overrides of a data set. At `smoke` all data sets are the same generated one, so that rows share trials."""
    if scale == "smoke":
        return {"data.name": "labelled_generated/frequent", "max_length": 32}
    return {
        "imdb": {"data.name": "reviews/imdb", "data.train_examples": 10_000},
        "bbc": {"data.name": "news/bbc", "model.num_classes": 5},
        "frequent": {"data.name": "labelled_generated/frequent", "max_length": 32},
        "rare": {"data.name": "labelled_generated/rare", "max_length": 32},
    }[name]


def _row(id: str, name: str, set_: str, changes: dict[str, Any], **row: Any) -> Row:
    at = {scale: {**_set(set_, scale), **changes} for scale in SCALES}
    return Row(id, f"{SETS[set_]}: {name}", at["cpu"], at=at, scales=_scales(id), **row)


def _scales(id: str) -> tuple[str, ...] | None:
    """The scales of a row. At `smoke` only one row of each sort is run."""
    sorts = ("mean", "idf", "token_weight", "self_attention", "bag_of_words", "lsa_frozen")
    return None if id.split("_", 1)[1] in sorts or id == "dissimilar_qkv" else SCALES[1:]


def _pooling(kind: str) -> dict[str, Any]:
    return {"model.pooling": {"kind": kind}}


def _embedding(method: str, frozen: bool) -> Row:
    """A row with the mean of pre-trained embeddings, which are frozen or trained further."""
    at = {}
    for scale in SCALES:
        file = f"runs/embeddings/{scale}-imdb-{method}.npy"
        at[scale] = {**_set("imdb", scale), "model.embedding": {"kind": "from_file", "file": file, "frozen": frozen}}
    how = "frozen" if frozen else "trained on"
    title = {"lsa": "LSA", "skip_gram": "skip-gram"}[method]
    stages = (measure(make_embedding, method=method), train, evaluate, measure(scores))
    name = f"IMDB: mean of {title} embeddings, {how}"
    id = f"imdb_{method}_{how.split()[0]}"
    return Row(id, name, at["cpu"], at=at, stages=stages, scales=_scales(id))


SCALES = ("smoke", "cpu", "gpu")
DISSIMILAR = {
    "data.name": "labelled_generated/dissimilar",
    "data.boundaries": (),
    "max_length": 8,
    "vocabulary_size": 40,
    "model.width": 64,
    "model.dropout_rate": 0.0,
}
FIXED = {"model.embedding": {"kind": "random_frozen", "scale": 4.0}}


def _dissimilar(id: str, name: str, changes: dict[str, Any]) -> Row:
    steps = {"smoke": 4, "cpu": 3000, "gpu": 3000}
    at = {scale: {**DISSIMILAR, **changes, "training.steps": count, "training.checkpoint_every": count}
          for scale, count in steps.items()}  # fmt: skip
    stages = (train, evaluate, measure(scores))
    return Row(id, f"unlike words tell: {name}", at["cpu"], at=at, stages=stages, scales=_scales(id))


ROWS = (
    *(_row(f"{set_}_{kind}", name, set_, _pooling(kind), stages=_stages(kind, set_))
      for set_ in REAL for kind, name in POOLINGS.items()),
    *(_row(f"{set_}_bag_of_words", BAG, set_, {}, stages=(measure(bag_of_words),)) for set_ in REAL),
    *(_row(f"{set_}_{kind}", POOLINGS[kind], set_, _pooling(kind), stages=_stages(kind, set_))
      for set_ in ("frequent", "rare") for kind in WEIGHTED),
    _row("imdb_random", "mean of random embeddings, frozen", "imdb", {"model.embedding": {"kind": "random_frozen"}},
         stages=(train, evaluate, measure(scores))),
    *(_embedding(method, frozen) for method in ("lsa", "skip_gram") for frozen in (True, False)),
    _dissimilar("dissimilar_self_attention", "X X^T, fixed embeddings", {**FIXED, **_pooling("self_attention")}),
    _dissimilar("dissimilar_self_attention_learned", "X X^T, learned embeddings", _pooling("self_attention")),
    _dissimilar("dissimilar_qkv", "Q K V, fixed embeddings", {**FIXED, **_pooling("qkv")}),
)  # fmt: skip


def _accuracy(key: str, title: str) -> Column:
    return Column(f"measure.{key}", title, fixed(1), better="higher")


CPU = {"max_length": 128, "model.width": 32, "training.steps": 800, "training.checkpoint_every": 800}
JUDGED_BY_CLASSES = ("tfidf-is-static-attention", "adaptive-weights-task-specific")


def beats_majority(texts: str, *claims: str) -> Competence:
    """The competence of one data set: the mean of embeddings is 15 points above the most frequent class."""
    mean, rows = f"{texts}_mean", (f"{texts}_*",)
    return Competence(mean, "evaluate.accuracy", "majority", margin=15, higher=True, claims=claims, rows=rows)


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(
            f"{CONFIG}:smoke",
            {"model.embedding": "learned", "model.pooling": "mean", "vocabulary_size": 200, "max_length": 32},
            seeds=1,
            jobs=2,
            settings={"sizes": (100,), "steps": 2, "terms": 30, "method_steps": 2},
        ),
        "cpu": Scale(
            f"{CONFIG}:imdb",
            CPU,
            seeds=3,
            jobs=2,
            settings={"sizes": (100, 1000), "steps": 300, "terms": 400, "method_steps": 1500},
            note="Texts are cut at 128 tokens; embeddings of width 32. IMDB: 10,000 of its training texts.",
        ),
        "gpu": Scale(
            f"{CONFIG}:imdb",
            {"max_length": 256, "model.width": 128, "training.steps": 2000, "training.checkpoint_every": 2000},
            seeds=5,
            settings={"sizes": (100, 1000), "steps": 500, "terms": 400, "method_steps": 6000},
        ),
    },
    columns=(
        PARAMETERS,
        STEPS_PER_SECOND,
        _accuracy("accuracy_100", "accuracy, 100 texts"),
        _accuracy("accuracy_1000", "accuracy, 1,000 texts"),
        _accuracy("accuracy", "accuracy, all texts"),
        _accuracy("macro_f1", "macro-F1"),
        Column("measure.idf_correlation", "weight ~ IDF", fixed(2)),
        Column("measure.bits_correlation", "weight ~ bits", fixed(2)),
    ),
    claims="../../claims.csv",
    competence=(
        *(beats_majority(texts, *JUDGED_BY_CLASSES, "token-weights-figure") for texts in ("imdb", "bbc")),
        *(beats_majority(texts, *JUDGED_BY_CLASSES) for texts in ("frequent", "rare")),
        Competence(
            "dissimilar_qkv",
            "evaluate.accuracy",
            line=90,
            higher=True,
            claims=("adaptive-weights-task-specific",),
            rows=("dissimilar_*",),
        ),
    ),
    untrained=("rarer-terms-more-informative",),
    verdicts=VERDICTS,
    figures=(draw_weights, draw_marked, draw_sizes, draw_moved),
    notes=(
        "weight ~ IDF, weight ~ bits: rank correlation of the weights of terms with IDF, and with the mutual "
        "information of the term and the label in bits.",
    ),
)
