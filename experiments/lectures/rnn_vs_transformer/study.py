"""Recurrent networks against the Transformer at equal parameters: cost, speed, letters to sounds, recall by distance.

    attention-research reproduce lectures/rnn_vs_transformer --scale=cpu

Letters to sounds (the CMU Pronouncing Dictionary): a vanilla RNN and an LSTM without attention, an LSTM with attention
(Luong et al. 2015), RNNsearch (Bahdanau et al. 2015) and a pre-norm Transformer, with about 435,000 parameters each.
All get the same data, batches and number of updates, and minimize the same loss; the Transformer has the optimizer and
the learning rate of configs/pronunciation/transformer.py. Operations are counted for one update. "Chain" is the longest
chain of dependent matrix products of an update, and "parallel" the share of operations outside sequential loops
(`accounting.depth`). Errors over time are those of checkpoints against the training time on this machine, without
evaluation.

Recall: delayed copying, and agreement of a verb with the first noun of a sentence (distant) or its last one (local),
from 1,000 examples of generated text (`data.copying`).
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, Column, fixed, significant
from attention_research.studies.competence import Competence

from ...raffel2017.systems import ERROR_RATE, SEQUENCES_WRONG, pronounces
from ..recall import measure_recall
from .courses import measure_course
from .figures import FAR, draw_course, draw_recall
from .models import ADAMW, NOAM, PRE_NORM, pronouncing, recurrent, transformer
from .verdicts import VERDICTS

CONFIG = "configs/translation/recurrent.py"
#: A checkpoint every 200 updates, for the errors over time.
OFTEN: dict[str, Any] = {"checkpoint_every": 200, "keep": 20, "keep_best": 0}


def sounds(id: str, name: str, model: dict[str, Any] | None, small: dict[str, Any] | None = None, **given: Any) -> Row:
    """A row of a model that reads letters. It is run at the scale smoke only if `small` is given."""
    at = {"cpu": pronouncing("cpu", model, **OFTEN, **given)}
    if small:
        at["smoke"] = pronouncing("smoke", small)
    return Row(id, name, at=at, scales=tuple(at), stages=(train, evaluate, measure(measure_course)))


SPELLED = {"embedding_width": 64}
ROWS = (
    sounds("vanilla", "vanilla RNN", recurrent(342, "vanilla", attention=False, **SPELLED)),
    sounds("lstm", "LSTM", recurrent(186, "lstm", attention=False, **SPELLED)),
    sounds("lstm_attention", "LSTM with attention", recurrent(149, "lstm", attention=True, **SPELLED),
           recurrent(16, "lstm", attention=True)),
    sounds("rnnsearch", "RNNsearch (GRU)", None),
    sounds("transformer", "Transformer", transformer(88, **PRE_NORM), transformer(16, **PRE_NORM), **ADAMW),
)  # fmt: skip

#: The small models of the recall tasks, with about 75,000 parameters each.
SMALL = {
    "vanilla": recurrent(114, "vanilla", attention=False),
    "lstm": recurrent(64, "lstm", attention=False),
    "lstm_attention": recurrent(55, "lstm", attention=True),
    "transformer": transformer(36),
    "transformer_nowhere": transformer(36, positions={"kind": "none"}),
}
NAMES = {
    "vanilla": "vanilla RNN",
    "lstm": "LSTM",
    "lstm_attention": "LSTM with attention",
    "transformer": "Transformer",
    "transformer_nowhere": "Transformer without positions",
}
#: How recurrent models learn to copy, as in configs/copying/recurrent.py. The rate of letters to sounds decays before
#: the LSTM has learned any delay.
CONSTANT: dict[str, Any] = {
    "training.learning_rate": 0.003,
    "training.schedule": {"kind": "constant"},
    "training.clip_norm": 1.0,
}
AT_SMOKE = (("copy", "transformer"), ("last", "lstm"))
ONE_LENGTH = {"kind": "buckets", "boundaries": (48,)}


def recalling(task: str, kind: str) -> Row:
    """A row of a small model on generated text: copying, or agreement with the first or last noun."""
    copying = {"kind": "copying", "max_delay": 40, "batching": ONE_LENGTH}
    agreeing = {"kind": "agreement", "max_delay": 40, "subject": task, "train_examples": 1000, "batching": ONE_LENGTH}
    steps = 3000 if task == "copy" else 400
    named = {"copy": "copying", "first": "agreement, distant", "last": "agreement, local"}[task]
    overrides = {
        "vocabulary_size": 32,
        "max_length": 48,
        "model": SMALL[kind],
        "model.dropout_rate": 0.0,
        **(NOAM if kind.startswith("transformer") else CONSTANT if task == "copy" else {}),
        "data": copying if task == "copy" else agreeing,
        "training.steps": steps,
        "training.checkpoint_every": steps,
        "training.keep": 1,
        "decoding.extra_length": 0,
    }
    few = {"training.steps": 4, "training.checkpoint_every": 4}
    smoke = {**overrides, **few, "data": {**overrides["data"], "train_examples": 64}}
    scales = None if (task, kind) in AT_SMOKE else ("cpu",)
    stages = (train, measure(measure_recall))
    return Row(
        f"{task}_{kind}", f"{named}, {NAMES[kind]}", overrides, at={"smoke": smoke}, scales=scales, stages=stages
    )


RECALL = (
    *(recalling("copy", kind) for kind in ("vanilla", "lstm", "lstm_attention", "transformer")),
    *(recalling(task, kind) for task in ("last", "first") for kind in ("lstm", "transformer", "transformer_nowhere")),
)


def recalls(row: str, rows: str, *claims: str) -> Competence:
    """The bar for recall: nine of ten answers."""
    return Competence(row, "measure.recall", line=0.9, higher=True, claims=claims, rows=(rows,))


STUDY = Study(
    rows=(*ROWS, *RECALL),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"words": 8}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings={"words": 1024}),
    },
    columns=(
        PARAMETERS,
        FLOPS,
        Column("measure.chain", "chain", significant(4), spread=False, better="lower"),
        Column("measure.parallel", "parallel", fixed(2), spread=False, better="higher"),
        Column("train.steps_per_second", "steps/s", significant(3), spread=False, better="higher"),
        Column("measure.tokens_per_second", "tokens/s", significant(3), spread=False, better="higher"),
        LOSS,
        ERROR_RATE,
        SEQUENCES_WRONG,
        Column("measure.recall", "recall", fixed(2), better="higher"),
        FAR,
    ),
    claims="../../claims.csv",
    competence=(
        pronounces(
            "transformer",
            *(row.id for row in ROWS),
            claims=(
                "attention-joined-with-rnn",
                "attention-can-replace-recurrence",
                "transformer-more-compute-faster",
                "parallelism-enables-pretraining",
                "transformer-wins-over-tasks",
            ),
        ),
        recalls(
            "copy_transformer", "copy_*", "transformer-good-at-long", "attention-joined-with-rnn", "lstm-good-on-long"
        ),
        # Distance can only be judged where short delays are learned.
        Competence(
            "copy_lstm",
            "measure.near",
            line=0.9,
            higher=True,
            claims=("transformer-good-at-long", "attention-joined-with-rnn"),
            rows=("copy_lstm",),
        ),
        recalls("last_lstm", "last_*", "rnn-locality-bias"),
        recalls("first_transformer", "first_*", "rnn-locality-bias"),
    ),
    verdicts=VERDICTS,
    figures=(draw_course, draw_recall),
    notes=(
        "Recall: generated text; chance is 1/512 for copying and 1/2 for agreement.",
        "Chain: the longest chain of dependent matrix products of one update. Parallel: the share of operations "
        "outside sequential loops.",
    ),
)
