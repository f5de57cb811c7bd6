"""Sutskever et al. 2014, Table 1: translation through one fixed vector, with forward and reversed source sentences.

    attention-research reproduce sutskever2014/table1 --scale=cpu
    attention-research inspect   --study=sutskever2014/table1 --scale=paper   # 384,000,000 weights without biases

At `paper` the published rows for single models are counted at the paper's size; ensembles are not built here. Below
`paper` the same systems translate strings of user interfaces, French to English (the task and the recipe of
`configs/translation/recurrent.py:strings`); compare only the rows with each other.

The other rows translate generated sentences (`generated_translation`), which a system of this size can learn to
translate through one fixed vector. The target has the order of the source or the reversed order. If reversing the
source helps because it brings the first source words close to the first target words, it must hurt if the target has
the reversed order. Only generated text can show this. Rows with other cells, and with the vector fed to every step,
read the source in reverse and write in its order; their widths are chosen to match the number of parameters of the
LSTM.
"""

from __future__ import annotations

import math

from attention_research.analysis.by_length import measure as by_length
from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.studies import Budget, Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import (
    BLEU,
    FAR_BLEU,
    FLOPS,
    LOSS,
    PARAMETERS,
    PERPLEXITY,
    STEPS_PER_SECOND,
    Column,
    fixed,
)
from attention_research.studies.competence import Competence, translates
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FIGURE, UNTESTED, Verdict, against, compare, conclude

from .sentence_vectors import measure as sentence_vectors

CONFIG = "configs/translation/recurrent.py"
OURS = ("smoke", "cpu", "gpu")
#: scale -> (width, embedding width) on interface strings, with LAYERS layers, and on generated sentences, with one.
SIZES = {"smoke": (16, 16), "cpu": (128, 128), "gpu": (512, 512)}
GENERATED_SIZES = {"smoke": (16, 16), "cpu": (256, 128), "gpu": (512, 512)}
LAYERS, GENERATED_VOCABULARY = 2, 300
SHORT = (train, evaluate, measure(by_length, edges=(4, 8, 12, 16, 21), longest=48))
VECTORS = (*SHORT, measure(sentence_vectors))
#: The rows of each task.
STRINGS, GENERATED = ("forward", "reversed"), ("same_*", "opposite_*", "every_step", "gru", "vanilla")


def matched_width(scale: str, gates: int, *, every_step: bool = False) -> int:
    """The width at which one layer of cells with `gates` gates (or with the vector fed to every step) has as many
    weights as the LSTM on generated sentences.

    The recurrent layers of both sides and the output layer have `gates (2 (E w + w^2) + [w^2]) + w V` weights.
    """
    width, embedding = GENERATED_SIZES[scale]
    square = lambda gates, fed: gates * (2 + fed)
    linear = lambda gates: 2 * gates * embedding + GENERATED_VOCABULARY
    total = square(4, 0) * width**2 + linear(4) * width
    a, b = square(gates, int(every_step)), linear(gates)
    return round((math.sqrt(b**2 + 4 * a * total) - b) / (2 * a))


EVERY_STEP = {"model.decoder": {"kind": "fixed_vector", "context_every_step": True}}
#: The training of the generated rows, by scale. At twice the width they have half the learning rate.
TRAINED = {"cpu": {"training.learning_rate": 0.005}}


def printed(id: str, name: str) -> Row:
    """A row with published BLEU only."""
    return Row(id, name, scales=())


def generated(
    id: str, name: str, changes: dict, *, order: str = "monotone", reverse: bool = True, gates: int = 4,
    every_step: bool = False, stages: tuple = SHORT,
) -> Row:  # fmt: skip
    """A row on generated sentences with whole words and one layer, which reads the source forward or reversed."""
    task = {
        "data": {
            "name": f"generated_translation/{order}",
            "source_language": "source",
            "target_language": "target",
            "tokenizer": {"kind": "words"},
            "batching": {"kind": "buckets", "boundaries": (12, 16, 24, 32)},
        },
        "evaluation.near": None,
        "max_length": 32,
        "vocabulary_size": GENERATED_VOCABULARY,
        "model.num_layers": 1,
        "model.reverse_source": reverse,
    }
    sizes = {
        scale: {
            "model.width": matched_width(scale, gates, every_step=every_step),
            "model.embedding_width": embedding,
        }
        for scale, (_, embedding) in GENERATED_SIZES.items()
    }
    at = {scale: {**task, **size, **changes, **TRAINED.get(scale, {})} for scale, size in sizes.items()}
    return Row(id, f"generated, {name}", at=at, scales=OURS, stages=stages)


ROWS = (
    printed("bahdanau", "Bahdanau et al."),
    printed("smt", "baseline SMT"),
    Row("forward", "one forward LSTM", {"model.reverse_source": False}),
    Row("reversed", "one reversed LSTM"),
    printed("ensemble_5_beam_1", "5 reversed LSTMs, beam 1"),
    printed("ensemble_2_beam_12", "2 reversed LSTMs, beam 12"),
    printed("ensemble_5_beam_2", "5 reversed LSTMs, beam 2"),
    printed("ensemble_5_beam_12", "5 reversed LSTMs, beam 12"),
    generated("same_forward", "same order: forward", {}, reverse=False, stages=VECTORS),
    generated("same_reversed", "same order: reversed", {}, stages=VECTORS),
    generated("opposite_forward", "opposite order: forward", {}, order="reversed", reverse=False),
    generated("opposite_reversed", "opposite order: reversed", {}, order="reversed"),
    generated("every_step", "the vector fed to every step", EVERY_STEP, every_step=True),
    generated("gru", "GRU cells", {"model.cell": {"kind": "gru"}}, gates=3),
    generated("vanilla", "vanilla cells", {"model.cell": {"kind": "vanilla"}}, gates=1),
)


def base(scale: str) -> dict:
    """The overrides that replace the configuration's RNNsearch by the paper's system at the sizes of a scale."""
    width, embedding = SIZES[scale]
    return {
        "data.name": "ui_translate/fr-en",
        "data.source_language": "fr",
        "data.target_language": "en",
        "model.cell": {"kind": "lstm_forget_bias"},
        "model.encoder": {"kind": "unidirectional"},
        "model.decoder": {"kind": "fixed_vector"},
        "model.alignment": {"kind": "none"},
        "model.reverse_source": True,
        "model.num_layers": LAYERS,
        "model.width": width,
        "model.embedding_width": embedding,
    }


def _quality(results: Results, better: str, worse: str, name: str) -> dict:
    return {
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity"),
        f"BLEU, {name}": compare(results, better, worse, "evaluate.bleu", higher=True),
    }


def parameters_differ(results: Results, row: str, other: str) -> float | None:
    """The relative difference of the parameters of two rows, or None if one was not counted."""
    first, second = (results.values(one, "inspect.parameters") for one in (row, other))
    return abs(first[0] / second[0] - 1) if first and second else None


def last_state(results: Results) -> Verdict:
    """Compares both forms at equal parameters. The claim says that both exist, not which one is better."""
    differ = parameters_differ(results, "every_step", "same_reversed")
    cases = _quality(results, "every_step", "same_reversed", "fed to every step")
    said = [f"{name}: {case.said}" for name, case in cases.items()]
    if differ is None or any(case.gain is None for case in cases.values()):
        return Verdict(UNTESTED, said)
    below = [f"{row} is {floor}" for row in ("every_step", "same_reversed") if (floor := results.untrained(row))]
    return Verdict(FIGURE, [f"parameters differ by {differ:.1%}", *below, *said])


def gated_cells(results: Results) -> Verdict:
    """LSTM and GRU are better than vanilla cells, at the same number of parameters."""
    return conclude({
        **_quality(results, "same_reversed", "vanilla", "LSTM"),
        **_quality(results, "gru", "vanilla", "GRU"),
    })  # fmt: skip


def reversal(results: Results) -> Verdict:
    """Reversing the source helps if source and target have the same order, and hurts if they have opposite orders.

    Interface strings are a case if their rows have learned the task.
    """
    pairs = {
        "generated in the same order": ("same_reversed", "same_forward"),
        "generated in the opposite order": ("opposite_forward", "opposite_reversed"),
    }
    if results.values("reversed", "evaluate.perplexity"):
        pairs["interface strings"] = ("reversed", "forward")
    return conclude({
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity")
        for name, (better, worse) in pairs.items()
    })  # fmt: skip


def falls_with_length(results: Results) -> Verdict:
    """With both directions BLEU decreases as the source becomes longer."""
    rows = "same_forward", "same_reversed"
    return conclude({row: against(results, row, "measure.length_slope", higher=False) for row in rows})


NOTE = (
    "Interface strings, French to English, with Adam instead of the paper's SGD; BLEU is that of all test strings, "
    "greedy. The generated rows are not French."
)
GPU = {
    "training.steps": 10_000,
    "training.batch_size": 128,
    "training.learning_rate": 0.0025,
    "training.schedule.warmup_steps": 1000,
}
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", base("smoke"), seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:strings", base("cpu"), seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
        "gpu": Scale(f"{CONFIG}:strings", base("gpu") | GPU, seeds=3, note=NOTE),
        "paper": Scale(f"{CONFIG}:sutskever", seeds=1, note="Only counted; training needs your own copy of WMT14."),
    },
    stages=(train, evaluate),
    columns=(
        PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY, BLEU,
        FAR_BLEU,
        Column("measure.length_slope", "slope, BLEU per word", fixed(2)),
    ),
    budgets=(
        Budget("reversed"),
        Budget("same_reversed", {
            "same_reversed": ("same_forward", "opposite_forward", "opposite_reversed", "every_step"),
            "gru": (), "vanilla": (),
        }),
    ),
    published="table1.csv",
    claims="../claims.csv",
    counts=weights_without_biases,
    # A generated sentence has exactly one correct translation.
    competence=(
        Competence("same_reversed", "evaluate.bleu", line=90, higher=True, rows=GENERATED),
        *translates("reversed", *STRINGS, claims=("must-hold-reversed-source",)),
    ),
    verdicts={
        "last-state-initialises-decoder": last_state,
        "lstm-gru-as-units": gated_cells,
        "must-hold-reversed-source": reversal,
        "must-hold-longer-is-worse": falls_with_length,
    },
)  # fmt: skip
