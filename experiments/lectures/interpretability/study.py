"""Do attention weights show which source tokens an output relies on? Compares erasing the most attended token with
erasing another token.

    attention-research reproduce lectures/interpretability --scale=cpu

The sources are letters of English words, whose sounds the models write, and sentences of a generated language. A
trained model writes its outputs for test sources greedily. Then it scores them, once with the whole source and once
without each source token (`erasure`). The study measures how far the log-probability of a target token falls when the
source token with the largest weight is missing, compared with the other tokens. It also measures the rank correlation
of the weights with these falls, and with the gradients with respect to the source embeddings. RNNsearch has one weight
for each source token. For the Transformer the weight is the mean over heads and layers of cross-attention, which is one
of several possible choices.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import BLEU, LOSS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, canvas, caption, legend, row_styles, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, against, conclude

from ...raffel2017.systems import ERROR_RATE, pronounces
from ..rnn_vs_transformer.models import ADAMW, PRE_NORM, post_norm, pronouncing, transformer

CONFIG = "configs/translation/recurrent.py"
GENERATED = {
    "max_length": 32,
    "vocabulary_size": 320,
    "data": {
        "kind": "pairs",
        "name": "generated_translation/local",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (32,)},
    },
}


def measure_reliance(*, workdir: Path, sentences: int, seed: int, **_: Any) -> dict[str, Any]:
    """Computes `erasure.Reliance` for a trained run, over its own outputs for test sources."""
    import jax
    import numpy as np

    from attention_research.training.evaluation import Trained

    from .erasure import Reliance, cut, erasure_effects, saliency, source_weights

    trained = Trained(workdir)
    merge, model = trained.trainer.structure.merge, trained.model()
    length = trained.config.resolved["max_length"]

    @jax.jit
    def written(model, source):
        return trained.decoding(merge(*model), {"tokens": source}, max_length=length).tokens[:, 0]

    @jax.jit
    def look(model, batch):
        model = merge(*model)
        weights = source_weights(model.log_likelihood(batch)[1])
        return weights, erasure_effects(model, batch), saliency(model, batch)

    reliance = Reliance()
    for ids, batch in trained.data.evaluation_batches("test", 32, examples=sentences):
        source = np.where((ids >= 0)[:, None], batch["source"], 0)
        pair = {"source": source, "target": cut(np.asarray(written(model, source)))}
        reliance.add(*map(np.asarray, look(model, pair)), **pair)
    return reliance.summary()


#: The overrides of the two models that read letters.
SEARCH, READER = pronouncing("cpu"), pronouncing("cpu", transformer(88, **PRE_NORM), **ADAMW)
ROWS = (
    Row("rnnsearch", "RNNsearch, letters to sounds", at={"smoke": pronouncing("smoke"), "cpu": SEARCH}),
    Row("transformer", "Transformer, letters to sounds",
        at={"smoke": pronouncing("smoke", transformer(16, **PRE_NORM)), "cpu": READER}),
    Row("rnnsearch_generated", "RNNsearch, generated language", GENERATED, scales=("cpu",)),
    Row("transformer_generated", "Transformer, generated language", {**post_norm(128), **GENERATED}, scales=("cpu",)),
)  # fmt: skip


def attention_interpretable(results: Results) -> Verdict:
    """In every row, log p falls more when the most attended token is erased than when another token is, and the rank
    correlation of the weights with gradient saliency is above 0."""
    cases = {}
    for row in ROWS:
        cases[f"erasing, {row.name}"] = against(results, row.id, "measure.most_attended", "measure.random")
        cases[f"gradients, {row.name}"] = against(results, row.id, "measure.with_saliency")
    return conclude(cases)


def draw_falls(results: Results, folder: Path) -> Figure | None:
    """Draws how far log p falls, by the attention rank of the erased token."""
    curves = {}
    for row in ROWS:
        lists = [e.result["stages"].get("measure", {}).get("by_rank") for e in results.of(row.id) if e.result]
        lists = [values for values in lists if values]
        if lists:
            curves[row.name] = [
                (rank, statistics.fmean(known))
                for rank, at in enumerate(zip(*lists, strict=True), start=1)
                if (known := [value for value in at if value is not None])
            ]
    if not curves:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8, 4.4))
    looks = row_styles(results, [row.id for row in ROWS if row.name in curves])
    for (name, points), style in zip(curves.items(), looks.values(), strict=True):
        axis.plot(*zip(*points, strict=True), label=name, linewidth=1.4, markersize=5, **style)
    axis.axhline(0, color="#333333", linewidth=0.8)
    axis.set_xlabel("attention rank of the erased source token (1: the most attended)")
    axis.set_ylabel("fall of the log probability\nof the target token, nats")
    legend(figure)
    where = folder / "falls_by_rank.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=list(looks)))
    said = "; ".join(f"{name} {points[0][1]:.2f} at rank 1, {points[-1][1]:.2f} at the last" for name, points in
                     curves.items())  # fmt: skip
    return Figure(where, "Fall of log p by the attention rank of the erased token", f"Falls in nats: {said}.")


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"sentences": 8}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings={"sentences": 128}),
    },
    stages=(train, evaluate, measure(measure_reliance)),
    columns=(
        Column("measure.most_attended", "fall, most attended erased", fixed(2), better="higher"),
        Column("measure.random", "fall, another erased", fixed(2)),
        Column("measure.larger", "share with larger fall", fixed(2), better="higher"),
        Column("measure.with_saliency", "rank correlation, gradients", fixed(2), better="higher"),
        Column("measure.with_erasure", "rank correlation, erasure", fixed(2), better="higher"),
        LOSS,
        ERROR_RATE,
        BLEU,
    ),
    claims="../../claims.csv",
    # A generated sentence has exactly one correct translation.
    competence=(
        Competence("transformer_generated", "evaluate.bleu", line=90, higher=True, rows=("*_generated",)),
        pronounces("transformer", "rnnsearch", "transformer"),
    ),
    verdicts={"attention-interpretable": attention_interpretable},
    figures=(draw_falls,),
    notes=(
        "Falls of log p are in nats, averaged over the tokens of each model's own outputs for 128 test words or "
        "sentences.",
        "Another: the mean over all other source tokens. Share with larger fall: how often log p falls more without "
        "the most attended token than without another.",
    ),
)
