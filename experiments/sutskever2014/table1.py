"""Sutskever et al. 2014, Table 1: translation through one fixed vector, with forward and reversed source sentences.

    attention-research reproduce sutskever2014/table1 --scale=cpu
    attention-research inspect   --study=sutskever2014/table1 --scale=paper   # 384,000,000 weights without biases

At `paper` the published rows for single models are counted at the paper's size; ensembles are not built here. Below
`paper` the same systems write the sounds of English words from their letters (the task and the recipe of
`configs/pronunciation/recurrent.py`), with one layer; compare only the rows with each other. Rows with other cells, and
with the vector fed to every step, read the letters in reverse; their widths are chosen to match the number of
parameters of the LSTM.

The other rows translate generated sentences (`generated_translation`). The target has the order of the source or the
reversed order. If reversing the source helps because it brings the first source words close to the first target words,
it must hurt if the target has the reversed order. Only generated text can show this.
"""

from __future__ import annotations

import math

from attention_research.analysis.by_length import measure as by_length
from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.studies import Budget, Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FIGURE, UNTESTED, Verdict, against, compare, conclude

from ..luong2015.systems import CONFIG, SOUNDS_NOTE, printed, quality, translate_generated
from ..raffel2017.systems import CONFIG as SOUNDS
from ..raffel2017.systems import ERROR_RATE, SEQUENCES_WRONG, pronounces
from .sentence_vectors import measure as sentence_vectors

OURS = ("smoke", "cpu", "gpu")
#: scale -> (width, embedding width) of the only layer
SIZES = {"smoke": (16, 16), "cpu": (256, 128), "gpu": (512, 512)}
#: The sizes of the vocabularies: letters and sounds, and generated words.
VOCABULARY, GENERATED_VOCABULARY = 80, 300
SHORT = (train, evaluate, measure(by_length, edges=(4, 8, 12, 16, 21), longest=48))
VECTORS = (*SHORT, measure(sentence_vectors))
#: The rows of each task.
PRONOUNCED, GENERATED = ("forward", "reversed", "every_step", "gru", "vanilla"), ("same_*", "opposite_*")


def matched_width(scale: str, gates: int, *, every_step: bool = False) -> int:
    """The width at which one layer of cells with `gates` gates (or with the vector fed to every step) has as many
    weights as the LSTM.

    The recurrent layers of both sides and the output layer have `gates (2 (E w + w^2) + [w^2]) + w V` weights.
    """
    width, embedding = SIZES[scale]
    square = lambda gates, fed: gates * (2 + fed)
    linear = lambda gates: 2 * gates * embedding + VOCABULARY
    total = square(4, 0) * width**2 + linear(4) * width
    a, b = square(gates, int(every_step)), linear(gates)
    return round((math.sqrt(b**2 + 4 * a * total) - b) / (2 * a))


EVERY_STEP = {"model.decoder": {"kind": "fixed_vector", "context_every_step": True}}
#: The rate of the vanilla cells is the best of 0.0003, 0.001 and 0.003 by validation loss (0.66, 0.49, 0.73). The other
#: cells have 0.003, the rate of the configuration. The LSTM is a little better at 0.01, which would widen its lead.
VANILLA = {"model.cell": {"kind": "vanilla"}, "training.learning_rate": 0.001}
#: The training of the generated rows at `cpu`.
TRAINED = {
    "training.steps": 4000,
    "training.checkpoint_every": 4000,
    "training.learning_rate": 0.005,
    "training.schedule": {"kind": "linear", "warmup_steps": 400},
}


def pronounced(id: str, name: str, changes: dict, *, gates: int = 4, every_step: bool = False) -> Row:
    """A row on letters and sounds, of the width at which it has as many parameters as the LSTM."""
    at = {scale: {**changes, "model.width": matched_width(scale, gates, every_step=every_step)} for scale in SIZES}
    return Row(id, name, at=at, scales=OURS)


def generated(id: str, name: str, *, order: str, reverse: bool, stages: tuple = SHORT) -> Row:
    """A row on generated sentences with whole words, which reads the source forward or reversed."""
    task = {**translate_generated(order, GENERATED_VOCABULARY), "model.reverse_source": reverse}
    return Row(id, f"generated, {name}", task, at={"cpu": {**task, **TRAINED}}, scales=OURS, stages=stages)


ROWS = (
    printed("bahdanau", "Bahdanau et al."),
    printed("smt", "baseline SMT"),
    Row("forward", "one forward LSTM", {"model.reverse_source": False}),
    Row("reversed", "one reversed LSTM"),
    printed("ensemble_5_beam_1", "5 reversed LSTMs, beam 1"),
    printed("ensemble_2_beam_12", "2 reversed LSTMs, beam 12"),
    printed("ensemble_5_beam_2", "5 reversed LSTMs, beam 2"),
    printed("ensemble_5_beam_12", "5 reversed LSTMs, beam 12"),
    pronounced("every_step", "the vector fed to every step", EVERY_STEP, every_step=True),
    pronounced("gru", "GRU cells", {"model.cell": {"kind": "gru"}}, gates=3),
    pronounced("vanilla", "vanilla cells", VANILLA, gates=1),
    generated("same_forward", "same order: forward", order="monotone", reverse=False, stages=VECTORS),
    generated("same_reversed", "same order: reversed", order="monotone", reverse=True, stages=VECTORS),
    generated("opposite_forward", "opposite order: forward", order="reversed", reverse=False),
    generated("opposite_reversed", "opposite order: reversed", order="reversed", reverse=True),
)


def base(scale: str) -> dict:
    """The overrides that replace the configuration's RNNsearch by the paper's system at the sizes of a scale."""
    width, embedding = SIZES[scale]
    return {
        "model.cell": {"kind": "lstm_forget_bias"},
        "model.encoder": {"kind": "unidirectional"},
        "model.decoder": {"kind": "fixed_vector"},
        "model.alignment": {"kind": "none"},
        "model.reverse_source": True,
        "model.width": width,
        "model.embedding_width": embedding,
    }


def parameters_differ(results: Results, row: str, other: str) -> float | None:
    """The relative difference of the parameters of two rows, or None if one was not counted."""
    first, second = (results.values(one, "inspect.parameters") for one in (row, other))
    return abs(first[0] / second[0] - 1) if first and second else None


def last_state(results: Results) -> Verdict:
    """Compares both forms at equal parameters. The claim says that both exist, not which one is better."""
    differ = parameters_differ(results, "every_step", "reversed")
    cases = quality(results, "every_step", "reversed", "fed to every step")
    said = [f"{name}: {case.said}" for name, case in cases.items()]
    if differ is None or any(case.gain is None for case in cases.values()):
        return Verdict(UNTESTED, said)
    below = [f"{row} is {floor}" for row in ("every_step", "reversed") if (floor := results.below_floor(row))]
    return Verdict(FIGURE, [f"parameters differ by {differ:.1%}", *below, *said])


def gated_cells(results: Results) -> Verdict:
    """LSTM and GRU are better than vanilla cells, at the same number of parameters."""
    return conclude({
        **quality(results, "reversed", "vanilla", "LSTM"),
        **quality(results, "gru", "vanilla", "GRU"),
    })  # fmt: skip


def reversal(results: Results) -> Verdict:
    """Reversing the source helps if source and target have the same order, as letters and sounds have, and hurts if
    they have opposite orders."""
    pairs = {
        "generated in the same order": ("same_reversed", "same_forward"),
        "generated in the opposite order": ("opposite_forward", "opposite_reversed"),
        "letters to sounds": ("reversed", "forward"),
    }
    return conclude({
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity")
        for name, (better, worse) in pairs.items()
    })  # fmt: skip


def falls_with_length(results: Results) -> Verdict:
    """With both directions BLEU decreases as the source becomes longer."""
    rows = "same_forward", "same_reversed"
    return conclude({row: against(results, row, "measure.length_slope", higher=False) for row in rows})


GPU = {
    "training.steps": 10_000,
    "training.batch_size": 128,
    "training.learning_rate": 0.0025,
    "training.schedule.warmup_steps": 1000,
}
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{SOUNDS}:smoke", base("smoke"), seeds=1, jobs=2, settings={"examples": 8}, note=SOUNDS_NOTE),
        "cpu": Scale(f"{SOUNDS}:cpu", base("cpu"), seeds=3, jobs=2, settings={"examples": 600}, note=SOUNDS_NOTE),
        "gpu": Scale(f"{SOUNDS}:cpu", base("gpu") | GPU, seeds=3, note=SOUNDS_NOTE),
        "paper": Scale(f"{CONFIG}:sutskever", seeds=1, note="Only counted; training needs your own copy of WMT14."),
    },
    stages=(train, evaluate),
    columns=(
        PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY, ERROR_RATE, SEQUENCES_WRONG,
        Column("measure.length_slope", "slope, BLEU per word", fixed(2)),
    ),
    budgets=(
        Budget("reversed", {"reversed": ("forward", "every_step"), "gru": (), "vanilla": ()}),
        Budget("same_reversed", {"same_reversed": ("same_forward", "opposite_forward", "opposite_reversed")}),
    ),
    published="table1.csv",
    claims="../claims.csv",
    counts=weights_without_biases,
    # A generated sentence has exactly one correct translation.
    competence=(
        Competence(
            "same_reversed",
            "evaluate.error_rate",
            line=10,
            claims=("must-hold-reversed-source", "must-hold-longer-is-worse"),
            rows=GENERATED,
        ),
        pronounces(
            "reversed",
            *PRONOUNCED,
            claims=("last-state-initialises-decoder", "lstm-gru-as-units", "must-hold-reversed-source"),
        ),
    ),
    verdicts={
        "last-state-initialises-decoder": last_state,
        "lstm-gru-as-units": gated_cells,
        "must-hold-reversed-source": reversal,
        "must-hold-longer-is-worse": falls_with_length,
    },
)  # fmt: skip
