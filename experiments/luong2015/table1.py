"""Luong et al. 2015, Table 1: the effects of reversing, dropout, attention and input feeding, added one by one.

    attention-research reproduce luong2015/table1 --scale=cpu
    attention-research inspect   --study=luong2015/table1 --scale=paper

The paper translates WMT14, English to German. Below `paper` the same systems write the sounds of English words from
their letters, with Adam and one layer. Ensembles are not built. Three rows on generated sentences with gold
alignments measure the distance between the centre of each step's weights and the word to be translated. One row, whose
names are unknown words, measures the effect of replacing unknown words by the attended source word.
"""

from __future__ import annotations

from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.analysis.teacher_forced import measure_gold
from attention_research.studies import Budget, Row, Study, evaluate, measure, train
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

from ..raffel2017.systems import pronounces
from .systems import (
    CENTRE_DISTANCE,
    COLUMNS,
    FEED,
    GENERATED_HALF_WIDTH,
    HALF_WIDTH,
    LETTERS_HALF_WIDTH,
    LOCATION,
    NO_ATTENTION,
    NO_FEED,
    OURS,
    WITHOUT_DROPOUT,
    attention,
    generated,
    printed,
    quality,
    scales,
)
from .unknown_words import measure as unknown_words

GOLD = (train, evaluate, measure(measure_gold))
UNKNOWN = (train, evaluate, measure(unknown_words))
SCORE = {"kind": "general"}
GENERAL = attention("global", SCORE)


def local_p(half_width: int) -> dict:
    """Local-p attention with the general score."""
    return attention("local_predictive", SCORE, half_width)


def local_m(half_width: int) -> dict:
    """Local-m attention with the general score."""
    return attention("local_monotonic", SCORE, half_width)


def row(
    id: str, name: str, changes: dict, *, dropout: bool = True, forward: bool = False, paper: dict | None = None
) -> Row:
    """A row of the paper. `paper` replaces the overrides at the scale `paper`."""
    ours, theirs = dict(changes), dict(changes if paper is None else paper)
    if not dropout:
        ours, theirs = ours | {"model.dropout_rate": 0.0}, theirs | WITHOUT_DROPOUT
    if forward:
        ours, theirs = (one | {"model.reverse_source": False} for one in (ours, theirs))
    return Row(id, name, at={**dict.fromkeys(OURS, ours), "paper": theirs})


def on_generated(id: str, name: str, changes: dict, stages: tuple = GOLD, data: str = "local") -> Row:
    """A row on generated sentences with input feeding. The vocabulary has 260 words, without the names."""
    return generated(id, name, {**FEED, **changes}, stages, vocabulary=260, data=data)


ROWS = (
    printed("winner", "winner of WMT14"),
    printed("jean", "RNNsearch (Jean et al. 2015)"),
    printed("jean_unk", "the same, unknown words replaced"),
    printed("jean_ensemble", "the same, large vocabulary, 8 models"),
    row("base", "base", NO_ATTENTION, dropout=False, forward=True),
    row("reverse", "base + reverse", NO_ATTENTION, dropout=False),
    row("dropout", "base + reverse + dropout", NO_ATTENTION),
    row("location", "... + global attention (location)", {**NO_FEED, **LOCATION}),
    row("location_feed", "... + global (location) + feeding", {**FEED, **LOCATION}),
    row(
        "local_p_feed",
        "... + local-p (general) + feeding",
        {**FEED, **local_p(LETTERS_HALF_WIDTH)},
        paper={**FEED, **local_p(HALF_WIDTH)},
    ),
    printed("unk", "... + unknown words replaced"),
    printed("ensemble", "8 models, unknown words replaced"),
    row("global_feed", "... + global (general) + feeding", {**FEED, **GENERAL}),
    row(
        "local_m_feed",
        "... + local-m (general) + feeding",
        {**FEED, **local_m(LETTERS_HALF_WIDTH)},
        paper={**FEED, **local_m(HALF_WIDTH)},
    ),
    row("last_state_feed", "... + the last state + feeding", {**FEED, "model.alignment": {"kind": "last_state"}}),
    on_generated("generated_global", "global (general)", GENERAL),
    on_generated("generated_local_p", "local-p (general)", local_p(GENERATED_HALF_WIDTH)),
    on_generated("generated_local_m", "local-m (general)", local_m(GENERATED_HALF_WIDTH)),
    on_generated("generated_unk", "global (general), names", GENERAL, UNKNOWN, "local_names"),
)  # fmt: skip


def all_states(results: Results) -> Verdict:
    """Global attention is better than the last state at every step, in the same decoder."""
    return conclude(quality(results, "global_feed", "last_state_feed", "global"))


def position_then_window(results: Results) -> Verdict:
    """Local-p, which predicts its position, is better than global attention and than local-m, which does not predict
    it, and the centre of its weights is closer to the gold word than that of local-m."""
    pairs = {
        **quality(results, "local_p_feed", "global_feed", "local-p against global"),
        **quality(results, "local_p_feed", "local_m_feed", "local-p against local-m"),
    }
    distance = compare(results, "generated_local_p", "generated_local_m", "measure.centre_distance")
    return conclude({"distance from the gold position, local-p against local-m": distance, **pairs})


def feeding(results: Results) -> Verdict:
    """Attention is better than none, and input feeding lowers the perplexity."""
    return conclude({
        **quality(results, "location", "dropout", "location against none"),
        **quality(results, "global_feed", "dropout", "global against none"),
        "perplexity, feeding": compare(results, "location_feed", "location", "evaluate.perplexity"),
    })  # fmt: skip


STUDY = Study(
    rows=ROWS,
    scales=scales(("en", "de")),
    stages=(train, evaluate),
    columns=(
        *COLUMNS,
        CENTRE_DISTANCE,
        Column("measure.bleu_before_unk", "BLEU before replacement", fixed(1), better="higher"),
        Column("measure.bleu_after_unk", "BLEU after replacement", fixed(1), better="higher"),
    ),
    budgets=(
        Budget("global_feed", {"dropout": ("base", "reverse", "last_state_feed")}),
        Budget("generated_global", {"generated_global": ("generated_local_p", "generated_local_m", "generated_unk")}),
    ),
    published="table1.csv",
    compared={"evaluate.perplexity": "perplexity"},
    claims="../claims.csv",
    counts=weights_without_biases,
    # A generated sentence has exactly one correct translation.
    competence=(
        pronounces("global_feed", "base", "reverse", "dropout", "location", "*_feed"),
        Competence(
            "generated_global",
            "evaluate.error_rate",
            line=10,
            claims=("local-position-then-window",),
            rows=("generated_global", "generated_local_*"),
        ),
    ),
    verdicts={
        "global-sees-all-states": all_states,
        "local-position-then-window": position_then_window,
        "must-hold-attention-and-feeding": feeding,
    },
)
