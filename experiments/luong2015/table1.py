"""Luong et al. 2015, Table 1: what reversing, dropout, attention and input feeding add, one after the other.

    attention-research reproduce luong2015/table1 --scale=cpu
    attention-research inspect   --study=luong2015/table1 --scale=paper

The paper translates WMT14, English to German; below `paper` the same systems translate Bible verses in that direction,
with Adam and one layer. Ensembles are not built. Three rows on generated sentences, which carry their alignment, say
how far the centre of each step's weights lies from the word to be translated, and one, whose names are unknown words,
what replacing them by the source word that was looked at adds.
"""

from __future__ import annotations

from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.analysis.teacher_forced import measure_gold
from attention_research.studies import Budget, Row, Study, evaluate, measure, train
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

from .systems import (
    BLEU,
    CENTRE_DISTANCE,
    COLUMNS,
    FEED,
    GENERATED_HALF_WIDTH,
    HALF_WIDTH,
    LOCATION,
    NO_ATTENTION,
    NO_FEED,
    OURS,
    VERSES,
    VERSES_HALF_WIDTH,
    WITHOUT_DROPOUT,
    attention,
    generated,
    printed,
    quality,
    scales,
)
from .unknown_words import measure as unknown_words

STAGES = (train, evaluate, VERSES)
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
    """A row of the paper; `paper` stands in for the changes at `paper`."""
    ours, theirs = dict(changes), dict(changes if paper is None else paper)
    if not dropout:
        ours, theirs = ours | {"model.dropout_rate": 0.0}, theirs | WITHOUT_DROPOUT
    if forward:
        ours, theirs = (one | {"model.reverse_source": False} for one in (ours, theirs))
    return Row(id, name, at={**dict.fromkeys(OURS, ours), "paper": theirs}, stages=STAGES)


def on_generated(id: str, name: str, changes: dict, stages: tuple = GOLD, data: str = "local") -> Row:
    """A row on generated sentences with input feeding; 260 words are known, so that names are not."""
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
        {**FEED, **local_p(VERSES_HALF_WIDTH)},
        paper={**FEED, **local_p(HALF_WIDTH)},
    ),
    printed("unk", "... + unknown words replaced"),
    printed("ensemble", "8 models, unknown words replaced"),
    row("global_feed", "... + global (general) + feeding", {**FEED, **GENERAL}),
    row(
        "local_m_feed",
        "... + local-m (general) + feeding",
        {**FEED, **local_m(VERSES_HALF_WIDTH)},
        paper={**FEED, **local_m(HALF_WIDTH)},
    ),
    row("last_state_feed", "... + the last state + feeding", {**FEED, "model.alignment": {"kind": "last_state"}}),
    on_generated("generated_global", "global (general)", GENERAL),
    on_generated("generated_local_p", "local-p (general)", local_p(GENERATED_HALF_WIDTH)),
    on_generated("generated_local_m", "local-m (general)", local_m(GENERATED_HALF_WIDTH)),
    on_generated("generated_unk", "global (general), names", GENERAL, UNKNOWN, "local_names"),
)  # fmt: skip


def all_states(results: Results) -> Verdict:
    """Global attention against the last state at every step, in the same decoder."""
    return conclude(quality(results, "global_feed", "last_state_feed", "global"))


def position_then_window(results: Results) -> Verdict:
    """Local against global attention, and how far the weights' centre is from the gold word: local-p, which picks its
    position, against local-m, which does not."""
    pairs = {
        **quality(results, "local_p_feed", "global_feed", "local-p against global"),
        **quality(results, "local_p_feed", "local_m_feed", "local-p against local-m"),
    }
    distance = compare(results, "generated_local_p", "generated_local_m", "measure.centre_distance")
    return conclude({"distance from the gold position, local-p against local-m": distance, **pairs})


def feeding(results: Results) -> Verdict:
    """Papers' must hold: any attention is above none; input feeding lowers perplexity."""
    return conclude({
        **quality(results, "location", "dropout", "location against none"),
        **quality(results, "global_feed", "dropout", "global against none"),
        "perplexity, feeding": compare(results, "location_feed", "location", "evaluate.perplexity"),
    })  # fmt: skip


NOTE = (
    "Bible verses, English to German, learnt up to 32 pieces; Adam where the paper has SGD. BLEU is of the test verses "
    "that fit into 32 pieces, greedy; bleu.png is of all of them, cut to that length. The rows called generated say "
    "nothing of German."
)
STUDY = Study(
    rows=ROWS,
    scales=scales("en", "de", NOTE),
    columns=(
        *COLUMNS,
        BLEU,
        CENTRE_DISTANCE,
        Column("measure.bleu_before_unk", "BLEU before unk", fixed(1), better="higher"),
        Column("measure.bleu_after_unk", "after unk", fixed(1), better="higher"),
    ),
    budgets=(
        Budget("global_feed", {"dropout": ("base", "reverse", "last_state_feed")}),
        Budget("generated_global", {"generated_global": ("generated_local_p", "generated_local_m", "generated_unk")}),
    ),
    published="table1.csv",
    compared={"evaluate.perplexity": "perplexity", "measure.bleu_fitting": "BLEU (newstest2014)"},
    claims="../claims.csv",
    counts=weights_without_biases,
    # A generated sentence has one right translation.
    competence=(
        Competence(
            "global_feed", "evaluate.perplexity", "trigram", rows=("base", "reverse", "dropout", "location", "*_feed")
        ),
        Competence(
            "generated_global",
            "evaluate.bleu",
            line=90,
            higher=True,
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
