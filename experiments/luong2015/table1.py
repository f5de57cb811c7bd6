"""Luong et al. 2015, Table 1: what reversing, dropout, attention and input feeding add, one after the other.

    attention-research reproduce luong2015/table1 --scale=cpu
    attention-research inspect   --study=luong2015/table1 --scale=paper

The paper translates WMT14, English to German; below `paper` the same systems translate Bible verses in that direction,
with Adam and one layer. Ensembles are not built. Three rows on generated sentences, which carry their alignment, say
how far the centre of each step's weights lies from the word to be translated, and one, whose names are unknown words,
what replacing them by the source word that was looked at adds.
"""

from __future__ import annotations

from attention_research.analysis.by_length import measure as by_length
from attention_research.analysis.teacher_forced import measure_gold
from attention_research.analysis.unknown_words import measure as unknown_words
from attention_research.analysis.weights import weights_without_biases
from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

CONFIG = "configs/translation/recurrent.py"
OURS = ("smoke", "cpu")
STAGES = (train, evaluate, measure(by_length, edges=(1, 10, 15, 20, 25, 30, 40, 60), longest=96))
GOLD = (train, evaluate, measure(measure_gold))
UNKNOWN = (train, evaluate, measure(unknown_words))
#: Half the window: the paper's 10 for 50 words, in proportion to 32 pieces and to 20 generated words.
HALF_WIDTH, VERSES_HALF_WIDTH, GENERATED_HALF_WIDTH = 10, 5, 4
#: The paper's epochs are of 35,156 updates: 10 without dropout, halved each one after 5; 12 with it, after 8.
WITHOUT_DROPOUT = {
    "model.dropout_rate": 0.0,
    "training.steps": 351_562,
    "training.schedule.boundaries": (175_781, 210_937, 246_093, 281_250, 316_406),
}
NO_ATTENTION = {"model.decoder": {"kind": "fixed_vector"}, "model.alignment": {"kind": "none"}}
FEED, NO_FEED = ({"model.decoder": {"kind": "luong", "input_feeding": fed}} for fed in (True, False))


def local_p(half_width: int) -> dict:
    """Local-p attention with the general score."""
    score = {"kind": "general"}
    return {"model.alignment": {"kind": "local_predictive", "half_width": half_width, "score": score}}


def local_m(half_width: int) -> dict:
    """Local-m attention with the general score."""
    score = {"kind": "general"}
    return {"model.alignment": {"kind": "local_monotonic", "half_width": half_width, "score": score}}


LOCATION = {"model.alignment": {"kind": "location"}}
GENERAL = {"model.alignment": {"kind": "global", "score": {"kind": "general"}}}


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


def generated(id: str, name: str, changes: dict, stages: tuple, config: str = "local") -> Row:
    """A row on generated sentences in a locally different order; the 260 most frequent words are known."""
    data = {
        "name": f"generated_translation/{config}",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (32,)},
    }
    changes = {"vocabulary_size": 260, "data": data, "model.reverse_source": False, **FEED, **changes}
    return Row(id, f"generated: {name}", changes, scales=OURS, stages=stages)


def printed(id: str, name: str) -> Row:
    """A system that stands here by its printed cells alone."""
    return Row(id, name, scales=())


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
    generated("generated_global", "global (general)", GENERAL, GOLD),
    generated("generated_local_p", "local-p (general)", local_p(GENERATED_HALF_WIDTH), GOLD),
    generated("generated_local_m", "local-m (general)", local_m(GENERATED_HALF_WIDTH), GOLD),
    generated("generated_unk", "global (general), names", GENERAL, UNKNOWN, "local_names"),
)  # fmt: skip


def base(width: int, vocabulary: int) -> dict:
    """The paper's system in place of the configuration's RNNsearch."""
    return {
        "data.name": "bible_translate/de-en",
        "data.target_language": "de",
        "vocabulary_size": vocabulary,
        "model.width": width,
        "model.embedding_width": width,
        "model.cell": {"kind": "lstm"},
        "model.encoder": {"kind": "unidirectional"},
        "model.decoder": {"kind": "luong", "input_feeding": True},
        "model.initialization": {"kind": "uniform", "scale": 0.1},
        "model.reverse_source": True,
        "model.dropout_rate": 0.2,
    }


def quality(results: Results, better: str, worse: str, name: str) -> dict:
    """Perplexity and BLEU of two rows, under a name."""
    return {
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity"),
        f"BLEU, {name}": compare(results, better, worse, "measure.bleu_fitting", higher=True),
    }


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
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", base(16, 1000), seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", base(128, 4000), seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
        "paper": Scale(f"{CONFIG}:luong", seeds=1, note="Counted; WMT14 must be brought."),
    },
    columns=(
        PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY,
        Column("measure.bleu_fitting", "BLEU", fixed(1), better="higher"),
        Column("measure.centre_distance", "words from gold", fixed(2), better="lower"),
        Column("measure.bleu_before_unk", "BLEU before unk", fixed(1), better="higher"),
        Column("measure.bleu_after_unk", "after unk", fixed(1), better="higher"),
    ),
    published="table1.csv",
    claims="claims.csv",
    counts=weights_without_biases,
    verdicts={
        "global-sees-all-states": all_states,
        "local-position-then-window": position_then_window,
        "must-hold-attention-and-feeding": feeding,
    },
)  # fmt: skip
