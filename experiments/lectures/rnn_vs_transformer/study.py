"""Recurrent networks against the Transformer at equal parameters: cost, speed, translation and recall by distance.

    attention-research reproduce lectures/rnn_vs_transformer --scale=cpu

Translation of English verses to French: a vanilla RNN and an LSTM without attention, an LSTM with attention (Luong et
al. 2015), RNNsearch (Bahdanau et al. 2015) and a Transformer, with about 1,810,000 parameters each. All get the same
data, batches and number of updates; each architecture has its own learning rate. Operations are counted for one update.
"Chain" is the longest chain of dependent matrix products of an update, and "parallel" the share of operations outside
sequential loops (`accounting.depth`). BLEU over time is BLEU of checkpoints against the training time on this machine,
without evaluation.

Recall: delayed copying, and agreement of a verb with the first noun of a sentence (distant) or its last one (local),
from 1,000 examples of generated text (`data.copying`).
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import BLEU, FLOPS, LOSS, PARAMETERS, Column, fixed, significant
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Comparison, Verdict, between, certain, compare, conclude

from ..recall import measure_recall
from .courses import MODELS, at_equal_time, draw_course, measure_course, seconds_to_loss

CONFIG = "configs/translation/recurrent.py"
GENERAL = {"kind": "global", "score": {"kind": "general"}}


def transformer(width: int, **settings: Any) -> dict[str, Any]:
    """The overrides of a Transformer with 4 heads and the learning rate and schedule of
    configs/translation/transformer.py."""
    model = {
        "kind": "transformer",
        "num_layers": 2,
        "width": width,
        "num_heads": 4,
        "dropout_rate": 0.1,
        "feed_forward": {"kind": "dense", "hidden_width": 4 * width},
        "encoder": {"unroll": True},
        "decoder": {"unroll": True},
    }
    return {
        "model": {**model, **settings},
        "training.learning_rate": 0.5,
        "training.optimizer": {"kind": "adam"},
        "training.schedule": {"kind": "noam", "warmup_steps": 200},
    }


def recurrent(width: int, cell: str, *, attention: bool) -> dict[str, Any]:
    """The overrides of a unidirectional encoder and a decoder with one layer each. The decoder is Luong's with the
    general score and input feeding, or has no context."""
    return {
        "model": {
            "kind": "recurrent",
            "width": width,
            "dropout_rate": 0.1,
            "cell": {"kind": cell},
            "encoder": {"kind": "unidirectional"},
            "decoder": {"kind": "luong", "input_feeding": attention},
            "alignment": GENERAL if attention else {"kind": "none"},
        }
    }


TRANSLATION = {
    "training.checkpoint_every": 100,
    "training.keep": 20,
    "training.keep_best": 0,
    "evaluation.examples": 256,
}


def translating(id: str, name: str, overrides: dict[str, Any], small: dict[str, Any] | None = None) -> Row:
    """A row of a translation model. It is run at the scale smoke only if `small` is given."""
    scales = ("cpu",) if small is None else None
    stages = (train, evaluate, measure(measure_course))
    return Row(id, name, {**TRANSLATION, **overrides}, at={"smoke": small or {}}, scales=scales, stages=stages)


ROWS = (
    translating("vanilla", "vanilla RNN", recurrent(142, "vanilla", attention=False)),
    translating("lstm", "LSTM", recurrent(127, "lstm", attention=False)),
    translating("lstm_attention", "LSTM with attention", recurrent(122, "lstm", attention=True),
                recurrent(16, "lstm", attention=True)),
    translating("rnnsearch", "RNNsearch (GRU)", {}),
    translating("transformer", "Transformer", transformer(148), transformer(16)),
)  # fmt: skip

#: The small models of the recall tasks, with about 75,000 parameters each.
SMALL = {
    "vanilla": recurrent(114, "vanilla", attention=False),
    "lstm": recurrent(64, "lstm", attention=False),
    "lstm_attention": recurrent(55, "lstm", attention=True),
    "transformer": transformer(36, num_layers=2),
    "transformer_nowhere": transformer(36, num_layers=2, positions={"kind": "none"}),
}
NAMES = {
    "vanilla": "vanilla RNN",
    "lstm": "LSTM",
    "lstm_attention": "LSTM with attention",
    "transformer": "Transformer",
    "transformer_nowhere": "Transformer without positions",
}
AT_SMOKE = (("copy", "transformer"), ("last", "lstm"))
ONE_LENGTH = {"kind": "buckets", "boundaries": (48,)}


def recalling(task: str, kind: str) -> Row:
    """A row of a small model on generated text: copying, or agreement with the first or last noun."""
    copying = {"kind": "copying", "max_delay": 40, "batching": ONE_LENGTH}
    agreeing = {"kind": "agreement", "max_delay": 40, "subject": task, "train_examples": 1000, "batching": ONE_LENGTH}
    steps = 1500 if task == "copy" else 400
    named = {"copy": "copying", "first": "agreement, distant", "last": "agreement, local"}[task]
    shared = {"vocabulary_size": 32, "max_length": 48, **SMALL[kind], "model.dropout_rate": 0.0}
    overrides = {
        **shared,
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


def _higher(results: Results, better: str, worse: str, key: str) -> Comparison:
    return compare(results, better, worse, key, higher=True)


def locality(results: Results) -> Verdict:
    """From few examples, the LSTM learns agreement with a neighbouring noun better than attention does, and better than
    it learns agreement with a distant noun."""
    return conclude(
        {
            "neighbours, LSTM against attention without positions": _higher(
                results, "last_lstm", "last_transformer_nowhere", "measure.recall"
            ),
            "neighbours, LSTM against attention with positions": _higher(
                results, "last_lstm", "last_transformer", "measure.recall"
            ),
            "LSTM, neighbours against the distant noun": _higher(results, "last_lstm", "first_lstm", "measure.recall"),
        }
    )


def lstm_on_long(results: Results) -> Verdict:
    """Over the longest third of delays, the recall of the LSTM is above that of the vanilla RNN."""
    return conclude({"far recall, LSTM against vanilla": _higher(results, "copy_lstm", "copy_vanilla", "measure.far")})


def transformer_on_long(results: Results) -> Verdict:
    """Over the longest third of delays, the recall of the Transformer is above that of the LSTM."""
    return conclude(
        {"far recall, Transformer against LSTM": _higher(results, "copy_transformer", "copy_lstm", "measure.far")}
    )


def attention_joined(results: Results) -> Verdict:
    """The LSTM with attention is better than the LSTM, in translation and in copying."""
    return conclude(
        {
            "BLEU": _higher(results, "lstm_attention", "lstm", "evaluate.bleu"),
            "far recall": _higher(results, "copy_lstm_attention", "copy_lstm", "measure.far"),
        }
    )


def replaces_recurrence(results: Results) -> Verdict:
    """The Transformer is better than each recurrent model, after the same number of updates and after equal time."""
    cases = {}
    for row in ("vanilla", "lstm", "lstm_attention", "rnnsearch"):
        cases[f"BLEU, {row}"] = _higher(results, "transformer", row, "evaluate.bleu")
        cases[f"BLEU at equal time, {row}"] = at_equal_time(results, "transformer", row)
    return conclude(cases)


def more_compute_but_faster(results: Results) -> Verdict:
    """The Transformer needs more operations per update than both recurrent models with attention, but fewer seconds to
    the worst of the final losses.

    All rows optimize the same loss, so a smoothed loss is never compared with an unsmoothed one.
    """
    cases = {}
    for row in ("lstm_attention", "rnnsearch"):
        flops = [results.values(one, "inspect.flops") for one in ("transformer", row)]
        losses = [results.values(one, "train.loss") for one in ("transformer", row)]
        if not all(flops) or not all(losses):
            continue
        more = flops[0][0] / flops[1][0]
        said = f"{more:.2f} times the operations per update of {row}"
        cases[f"operations, {row}"] = certain("transformer", row, more - 1, said)
        wanted = max(max(values) for values in losses)
        ours, theirs = (seconds_to_loss(results, one, wanted) for one in ("transformer", row))
        name = f"seconds to loss {wanted:.2f}:"
        cases[f"time, {row}"] = between("transformer", row, ours, theirs, name, higher=False)
    return conclude(cases) if cases else Verdict(UNTESTED, "not measured")


def draw_recall(results: Results, folder: Path) -> Figure | None:
    """Draws recall against delay, one panel per task."""
    panels = {"copy": "copying", "last": "agreement with the last noun", "first": "agreement with the first noun"}
    found: dict[str, list[tuple[str, list[int], list[float]]]] = {task: [] for task in panels}
    for row in RECALL:
        lists = [e.result["stages"].get("measure", {}) for e in results.of(row.id) if e.result]
        lists = [one for one in lists if one.get("recalls")]
        if lists:
            means = [statistics.fmean(at) for at in zip(*(one["recalls"] for one in lists), strict=True)]
            found[row.id.split("_")[0]].append((row.name.split(", ")[-1], lists[0]["delays"], means))
    if not any(found.values()):
        return None
    pyplot = canvas()
    figure, axes = pyplot.subplots(1, len(panels), figsize=(10.5, 4.6), sharey=True)
    style_of = styles_of(MODELS)
    for axis, (task, title) in zip(axes, panels.items(), strict=True):
        for name, delays, recalls in found[task]:
            axis.plot(delays, recalls, label=name, linewidth=1.2, markersize=4, **style_of[name])
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_xlabel("number of words between")
        axis.set_ylim(-0.03, 1.03)
    axes[0].set_ylabel("recall, share of examples")
    legend(figure, columns=3)
    where = folder / "recall_by_distance.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=[row.id for row in RECALL]))
    said = "; ".join(f"{row.name} {text}" for row in RECALL if (text := results.cell(row.id, FAR).text))
    return Figure(where, "Recall by distance", f"Over the longest third of distances: {said}.")


def no_pretraining(results: Results) -> Verdict:
    """Not tested: it would need models that are pre-trained for an equal time and then fine-tuned."""
    del results
    return Verdict(UNTESTED, "no row is pre-trained: the table has tokens per second, but no scores after pre-training")


def one_size(results: Results) -> Verdict:
    """Not tested: it would need several tasks on real text at several sizes and equal compute."""
    del results
    return Verdict(UNTESTED, "the rows have only one size and one task on real text")


FAR = Column("measure.far", "recall, longest third", fixed(2), better="higher")
STUDY = Study(
    rows=(*ROWS, *RECALL),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"sentences": 8}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings={"sentences": 128}),
    },
    columns=(
        PARAMETERS,
        FLOPS,
        Column("measure.chain", "chain", significant(4), spread=False, better="lower"),
        Column("measure.parallel", "parallel", fixed(2), spread=False, better="higher"),
        Column("train.steps_per_second", "steps/s", significant(3), spread=False, better="higher"),
        Column("measure.tokens_per_second", "tokens/s", significant(3), spread=False, better="higher"),
        LOSS,
        BLEU,
        Column("measure.recall", "recall", fixed(2), better="higher"),
        FAR,
    ),
    claims="../../claims.csv",
    competence=(
        Competence(
            "transformer",
            "evaluate.perplexity",
            "trigram",
            claims=(
                "attention-joined-with-rnn",
                "attention-can-replace-recurrence",
                "transformer-more-compute-faster",
                "parallelism-enables-pretraining",
                "transformer-wins-over-tasks",
            ),
            rows=("vanilla", "lstm", "lstm_attention", "rnnsearch", "transformer"),
        ),
        Competence(
            "copy_transformer",
            "measure.recall",
            line=0.9,
            higher=True,
            claims=("transformer-good-at-long", "attention-joined-with-rnn", "lstm-good-on-long"),
            rows=("copy_*",),
        ),
        Competence(
            "last_lstm", "measure.recall", line=0.9, higher=True, claims=("rnn-locality-bias",), rows=("last_*",)
        ),
        Competence(
            "first_transformer",
            "measure.recall",
            line=0.9,
            higher=True,
            claims=("rnn-locality-bias",),
            rows=("first_*",),
        ),
    ),
    verdicts={
        "rnn-locality-bias": locality,
        "lstm-good-on-long": lstm_on_long,
        "transformer-good-at-long": transformer_on_long,
        "attention-joined-with-rnn": attention_joined,
        "attention-can-replace-recurrence": replaces_recurrence,
        "transformer-more-compute-faster": more_compute_but_faster,
        "parallelism-enables-pretraining": no_pretraining,
        "transformer-wins-over-tasks": one_size,
    },
    figures=(draw_course, draw_recall),
    notes=(
        "Recall: generated text; chance is 1/512 for copying and 1/2 for agreement.",
        "Chain: the longest chain of dependent matrix products of one update. Parallel: the share of operations "
        "outside sequential loops.",
    ),
)
