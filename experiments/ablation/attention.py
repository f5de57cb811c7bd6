"""Ablations of the Transformer: one part is changed at a time, on the pronunciation of words.

    attention-research reproduce ablation/attention --scale=quick

At `quick` the task is the pronunciation of English words (letters to phonemes, the CMU Pronouncing Dictionary), which a
small Transformer learns in two minutes on one core. The rows are scaled and unscaled dot products (Vaswani et al. 2017,
section 3.2.1), relative positions (Shaw et al. 2018), Linformer at two ranks (Wang et al. 2020) and no positions.
Linformer replaces encoder self-attention and cross-attention; the self-attention of the decoder stays causal and
standard.

`cpu` has the same task, model and updates, and more rows: T5's bias, learned positions, 1 and 8 heads, Linformer at
rank 16, the Transformer without feed-forward layers, residual connections, normalization or causal mask, and residual
connections by depth. The lectures' claims in ../claims.csv are judged on these rows. At `gpu` and `paper` the model is
the paper's base model on Bible verses and on WMT14, and Linformer also has the other ways to share its projections. All
rows of a scale have the same schedule.
"""

from typing import Any

from attention_research.studies import Budget, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import by_row
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Comparison, Verdict, compare, conclude

from .rows import DEEP, ROWS
from .words import draw_words, measure_words

SOUNDS = "configs/pronunciation/transformer.py"
CONFIG = "configs/translation/transformer.py"

# Linformer projects whole rows, so sentences must not be packed. They are grouped by length instead, with about the
# same number of tokens per batch.
FRENCH = {"data.source_language": "fr", "data.target_language": "en"}
GPU = {
    **FRENCH,
    "max_length": 64,
    "vocabulary_size": 8000,
    "data.name": "bible_translate/fr-en",
    "data.batching": {"kind": "buckets", "boundaries": (32, 64)},
    "training.batch_size": 512,
    "training.steps": 20_000,
}
PAPER = {
    **FRENCH,
    "data.name": "wmt14_translate/fr-en",
    "data.batching": {"kind": "buckets", "boundaries": (32, 64, 128, 256)},
    "training.batch_size": 832,
}

MEASURE = measure(measure_words, words=("attention", "neighborhoods", "psychologist"))
STAGES = (train, evaluate, MEASURE)
PHONEME_ERRORS = Column("evaluate.error_rate", "phoneme errors, %", fixed(1), better="lower")
WORD_ERRORS = Column("evaluate.word_error_rate", "word errors, %", fixed(1), better="lower")
# Speeds are measured in benchmarks/ and in `ablation/length`: these trials may run beside other programs.
COLUMNS = (PARAMETERS, FLOPS, LOSS, PHONEME_ERRORS, WORD_ERRORS)
#: The rows of `quick`. They have more seeds at `cpu`, those that are recorded there.
FIVE = dict.fromkeys(("standard", "unscaled", "relative_8", "linformer_8", "linformer_4", "no_positions"), 5)
#: The rows that a claim says are better than another row. They must have learned their task.
BETTER = ("standard", "heads_1", "deep")
FAMILIES = {
    "unscaled": ("unscaled_heads_1",),
    "linformer_16": ("linformer_4", "linformer_8"),
    "no_norm": (),
    "no_residual": ("deep_no_residual",),
    "deep": (),
}

#: The settings that the scales of pronunciation share.
JUDGED: dict[str, Any] = {
    "stages": STAGES, "columns": COLUMNS, "reference": "standard", "decided_by": WORD_ERRORS
}  # fmt: skip

#: Cases of a claim: name, key, and whether higher is better. A scale has the cases that it measures.
TRAINING = (("loss", "train.loss", False),)
QUALITY = (
    ("word errors", "evaluate.word_error_rate", False),
    ("BLEU", "evaluate.bleu", True),
)


def _cases(results: Results, better: str, worse: str, name: str, *wanted: tuple) -> dict[str, Comparison]:
    """Compares two rows by each of the values that the reference row has, under a name."""
    return {
        f"{kind}, {name}": compare(results, better, worse, key, higher=higher)
        for kind, key, higher in wanted
        if results.values("standard", key)
    }


def scaling_helps_training(results: Results) -> Verdict:
    """Scaled scores are better than unscaled ones at two key widths: that of the configuration, and the model width."""
    narrow = _cases(results, "standard", "unscaled", "the configuration's key width", *TRAINING, *QUALITY)
    wide = _cases(results, "heads_1", "unscaled_heads_1", "key width = model width", *TRAINING, *QUALITY)
    return conclude({**narrow, **wide})


def necessary_parts(results: Results) -> Verdict:
    """The standard row generates better outputs than the rows with one part removed.

    Losses are not compared: without its mask a decoder sees the token that it has to predict.
    """
    parts = {
        "positions": "no_positions",
        "feed-forward": "no_feed_forward",
        "residuals": "no_residual",
        "normalisation": "no_norm",
        "masking": "no_mask",
    }
    cases = {}
    for part, row in parts.items():
        cases |= _cases(results, "standard", row, part, *QUALITY)
    return conclude(cases)


def residuals_help_training(results: Results) -> Verdict:
    """The training loss is lower with residual connections than without them, at two depths."""
    usual = _cases(results, "standard", "no_residual", "the configuration's depth", *TRAINING)
    return conclude({**usual, **_cases(results, "deep", "deep_no_residual", f"{DEEP} layers", *TRAINING)})


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{SOUNDS}:smoke", seeds=1, jobs=2, **JUDGED),
        "quick": Scale(f"{SOUNDS}:quick", seeds=5, jobs=2, **JUDGED),
        "cpu": Scale(f"{SOUNDS}:quick", seeds=3, more_seeds=FIVE, jobs=2, **JUDGED),
        "gpu": Scale(f"{CONFIG}:vaswani_base", GPU, seeds=2, replicas=True),
        "paper": Scale(f"{CONFIG}:vaswani_base", PAPER, seeds=2),
    },
    published="attention.csv",
    claims="../claims.csv",
    competence=(
        Competence(
            "standard", "evaluate.error_rate", "nearest_source", margin=10, rows=BETTER, scales=("quick", "cpu")
        ),
        Competence("standard", "evaluate.perplexity", "trigram", rows=BETTER, scales=("gpu", "paper")),
    ),
    verdicts={
        "scaling-helps-training": scaling_helps_training,
        "necessary-parts": necessary_parts,
        "residuals-help-training": residuals_help_training,
    },
    figures=(draw_words, by_row(WORD_ERRORS, printed="word errors, %")),
    budgets=(Budget("standard", FAMILIES),),
)
