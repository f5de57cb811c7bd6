"""Sutskever et al. 2014, Table 1: translation through one fixed vector, with forward and reversed source sentences.

    attention-research reproduce sutskever2014/table1 --scale=cpu
    attention-research inspect   --study=sutskever2014/table1 --scale=paper   # 384,000,000 weights without biases

At `paper` the published rows for single models are counted at the paper's size; ensembles are not built here. Below
`paper` the same systems translate Bible verses, English to French, with Adam; compare only the rows with each other.
The widths of the rows with other cells, and of the row that feeds the vector to every step, are chosen to match the
number of parameters of the LSTM.

The last four rows translate generated sentences (`generated_translation`), in the order of the source and in reversed
order. If reversing the source helps because it brings the first source words close to the first target words, it must
hurt if the target has the reversed order. Only generated text can show this.
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

from .sentence_vectors import measure as sentence_vectors

CONFIG = "configs/translation/recurrent.py"
OURS = ("smoke", "cpu", "gpu")
#: scale -> (width, embedding width, layers, vocabulary)
SIZES = {"smoke": (16, 16, 2, 1000), "cpu": (128, 128, 2, 4000), "gpu": (512, 512, 2, 8000)}
LENGTHS = (train, evaluate, measure(by_length, edges=(1, 10, 15, 20, 25, 30, 40, 60), longest=96))
VECTORS = (*LENGTHS, measure(sentence_vectors))
SHORT = (train, evaluate, measure(by_length, edges=(4, 8, 12, 16, 21), longest=48))
#: The parameters of two rows count as equal if they differ by at most this share.
EQUAL = 0.01


def matched_width(scale: str, gates: int, *, every_step: bool = False) -> int:
    """The width at which cells with `gates` gates (or with the vector fed to every step) have as many weights as the
    LSTM.

    The recurrent layers of both sides and the output layer have `gates (2 (E w + (2 L - 1) w^2) + [w^2]) + w V`
    weights.
    """
    width, embedding, layers, vocabulary = SIZES[scale]
    square = lambda gates, fed: gates * (2 * (2 * layers - 1) + fed)
    linear = lambda gates: 2 * gates * embedding + vocabulary
    total = square(4, 0) * width**2 + linear(4) * width
    a, b = square(gates, int(every_step)), linear(gates)
    return round((math.sqrt(b**2 + 4 * a * total) - b) / (2 * a))


def cell(kind: str, gates: int) -> dict[str, dict]:
    """By scale, the overrides of a row with another cell."""
    return {
        scale: {"model.cell": {"kind": kind}, "model.width": matched_width(scale, gates), "model.embedding_width": e}
        for scale, (_, e, _, _) in SIZES.items()
    }


EVERY_STEP = {
    scale: {
        "model.decoder": {"kind": "fixed_vector", "context_every_step": True},
        "model.width": matched_width(scale, 4, every_step=True),
        "model.embedding_width": e,
    }
    for scale, (_, e, _, _) in SIZES.items()
}
FORWARD = {"model.reverse_source": False}


def printed(id: str, name: str) -> Row:
    """A row with published BLEU only."""
    return Row(id, name, scales=())


def generated(order: str, name: str, *, reverse: bool) -> Row:
    """A row on generated sentences with whole words and one layer, which reads the source forward or reversed."""
    changes = {
        "data": {
            "name": f"generated_translation/{order}",
            "source_language": "source",
            "target_language": "target",
            "tokenizer": {"kind": "words"},
            "batching": {"kind": "buckets", "boundaries": (32,)},
        },
        "vocabulary_size": 300,
        "model.num_layers": 1,
        "model.reverse_source": reverse,
    }
    way = "reversed" if reverse else "forward"
    return Row(f"{name}_{way}", f"generated, {name} order: {way}", changes, scales=OURS, stages=SHORT)


ROWS = (
    printed("bahdanau", "Bahdanau et al."),
    printed("smt", "baseline SMT"),
    Row("forward", "one forward LSTM", FORWARD, stages=VECTORS),
    Row("reversed", "one reversed LSTM", stages=VECTORS),
    printed("ensemble_5_beam_1", "5 reversed LSTMs, beam 1"),
    printed("ensemble_2_beam_12", "2 reversed LSTMs, beam 12"),
    printed("ensemble_5_beam_2", "5 reversed LSTMs, beam 2"),
    printed("ensemble_5_beam_12", "5 reversed LSTMs, beam 12"),
    Row("every_step", "the vector fed to every step", at=EVERY_STEP, scales=OURS),
    Row("gru", "GRU cells", at=cell("gru", 3), scales=OURS),
    Row("vanilla", "vanilla cells", at=cell("vanilla", 1), scales=OURS),
    generated("monotone", "same", reverse=False),
    generated("monotone", "same", reverse=True),
    generated("reversed", "opposite", reverse=False),
    generated("reversed", "opposite", reverse=True),
)


def base(scale: str) -> dict:
    """The overrides that replace the configuration's RNNsearch by the paper's system at the sizes of a scale."""
    width, embedding, layers, vocabulary = SIZES[scale]
    return {
        "model.cell": {"kind": "lstm"},
        "model.encoder": {"kind": "unidirectional"},
        "model.decoder": {"kind": "fixed_vector"},
        "model.alignment": {"kind": "none"},
        "model.initialization": {"kind": "uniform", "scale": 0.08},
        "model.reverse_source": True,
        "model.num_layers": layers,
        "model.width": width,
        "model.embedding_width": embedding,
        "vocabulary_size": vocabulary,
    }


def _quality(results: Results, better: str, worse: str, name: str) -> dict:
    return {
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity"),
        f"BLEU, {name}": compare(results, better, worse, "measure.bleu_fitting", higher=True),
    }


def parameters_differ(results: Results, row: str, other: str) -> float | None:
    """The relative difference of the parameters of two rows, or None if one was not counted."""
    first, second = (results.values(one, "inspect.parameters") for one in (row, other))
    return abs(first[0] / second[0] - 1) if first and second else None


def last_state(results: Results) -> Verdict:
    """Compares both forms at equal parameters. The claim says that both exist, not which one is better."""
    differ = parameters_differ(results, "every_step", "reversed")
    cases = _quality(results, "every_step", "reversed", "fed to every step")
    said = [f"{name}: {case.said}" for name, case in cases.items()]
    if differ is None or any(case.gain is None for case in cases.values()):
        return Verdict(UNTESTED, said)
    below = [f"{row} is {floor}" for row in ("every_step", "reversed") if (floor := results.untrained(row))]
    return Verdict(FIGURE, [f"parameters differ by {differ:.1%}", *below, *said])


def gated_cells(results: Results) -> Verdict:
    """LSTM and GRU are better than vanilla cells, at the same number of parameters."""
    cases = {**_quality(results, "reversed", "vanilla", "LSTM"), **_quality(results, "gru", "vanilla", "GRU")}
    return conclude(cases)


def reversal(results: Results) -> Verdict:
    """Reversing the source helps if source and target have the same order, and hurts if they have opposite orders."""
    real = {"perplexity, Bible verses": compare(results, "reversed", "forward", "evaluate.perplexity")}
    return conclude({
        "perplexity, generated in the same order": compare(
            results, "same_reversed", "same_forward", "evaluate.perplexity"
        ),
        "perplexity, generated in the opposite order": compare(
            results, "opposite_forward", "opposite_reversed", "evaluate.perplexity"
        ),
        **real,
    })  # fmt: skip


def falls_with_length(results: Results) -> Verdict:
    """With both directions BLEU decreases as the source becomes longer."""
    rows = "same_forward", "same_reversed"
    return conclude({row: against(results, row, "measure.length_slope", higher=False) for row in rows})


NOTE = (
    "Bible verses, English to French, are trained up to 32 word pieces, with Adam instead of the paper's SGD. BLEU is "
    "that of test verses of at most 32 pieces, greedy; bleu.png uses all test verses, cut to that length. The "
    "generated rows are not French."
)
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", base("smoke"), seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", base("cpu"), seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
        "gpu": Scale(
            f"{CONFIG}:cpu", base("gpu") | {"training.steps": 10_000, "training.batch_size": 128}, seeds=3, note=NOTE
        ),
        "paper": Scale(f"{CONFIG}:sutskever", seeds=1, note="Only counted; training needs your own copy of WMT14."),
    },
    stages=LENGTHS,
    columns=(
        PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY,
        Column("measure.bleu_fitting", "BLEU", fixed(1), better="higher"),
        Column("measure.bleu_every_length", "BLEU, whole test", fixed(1), better="higher"),
        Column("measure.length_slope", "slope, BLEU per word", fixed(2)),
    ),
    budgets=(
        Budget("reversed", {"gru": (), "vanilla": ()}),
        Budget("same_forward", {"same_forward": ("same_reversed", "opposite_forward", "opposite_reversed")}),
    ),
    published="table1.csv",
    claims="../claims.csv",
    counts=weights_without_biases,
    # A generated sentence has exactly one correct translation.
    competence=(
        Competence(
            "reversed", "evaluate.perplexity", "trigram", rows=("forward", "reversed", "every_step", "gru", "vanilla")
        ),
        Competence(
            "same_reversed",
            "evaluate.bleu",
            line=90,
            higher=True,
            claims=("must-hold-reversed-source", "must-hold-longer-is-worse"),
            rows=("same_*", "opposite_*"),
        ),
    ),
    verdicts={
        "last-state-initialises-decoder": last_state,
        "lstm-gru-as-units": gated_cells,
        "must-hold-reversed-source": reversal,
        "must-hold-longer-is-worse": falls_with_length,
    },
)  # fmt: skip
