"""Attention taken apart: a Transformer with one part changed at a time, on words and their sounds, and on real text.

    attention-research reproduce ablation/attention --scale=quick

At `quick` the task is the pronunciation of English words (letters to phonemes, the CMU Pronouncing Dictionary), which a
small Transformer learns in two minutes of one core. Rows: scaled and unscaled dot products (Vaswani et al. 2017,
section 3.2.1), relative positions (Shaw et al. 2018), Linformer at two ranks (Wang et al. 2020: encoder and
cross-attention; a decoder's self-attention stays causal and standard), no positions at all.

From `cpu` on the task is French to English (Bible verses, 27,750 pairs: BLEU here says nothing about news), and there
are more rows: T5's bias, learned positions, 1, 4 and 8 heads, Linformer's sharing modes, the Transformer without its
feed-forward, residuals, normalisation or causal mask, and residuals by depth: the rows that the lectures' claims in
../claims.csv are judged on. All rows of a scale have one schedule.
"""

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import by_row
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Comparison, Verdict, compare, conclude

from .words import draw_words, measure_words

SOUNDS = "configs/pronunciation/transformer.py"
CONFIG = "configs/translation/transformer.py"
TO_QUICK = ("smoke", "quick")
FROM_CPU = ("cpu", "gpu", "paper")
#: The depth of the rows `deep` and `deep_no_residual`.
DEEP = 6

# Linformer projects whole rows, so that none may be packed: sentences by length, in about as many tokens a batch.
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

#: One block's residual branches in the configurations above: post-norm, as the paper.
ENCODER_STEPS = (
    ("self_attention", "dropout", "residual", "norm"),
    ("feed_forward", "dropout", "residual", "norm"),
)
DECODER_STEPS = (
    ("self_attention", "dropout", "residual", "norm"),
    ("cross_attention", "dropout", "residual", "norm"),
    ("feed_forward", "dropout", "residual", "norm"),
)


def without(part: str) -> dict:
    """The overrides that take one kind of step out of every block; a branch without its layer goes too."""
    edited = {}
    for side, steps in (("encoder", ENCODER_STEPS), ("decoder", DECODER_STEPS)):
        kept = [branch for branch in steps if part != "feed_forward" or part not in branch]
        edited[f"model.{side}.steps"] = tuple(tuple(step for step in branch if step != part) for branch in kept)
    return edited


def linformer(rank: int, **settings: str) -> dict:
    """The whole section of self-attention, and so of cross-attention too."""
    return {"model.self_attention": {"kind": "linformer", "rank": rank, **settings}}


def cpu(id: str, name: str, overrides: dict) -> Row:
    """A row of the larger scales."""
    return Row(id, name, overrides, scales=FROM_CPU)


NO_POSITIONS = {"model.positions.kind": "none"}


def relative(distance: int) -> dict:
    """Shaw's relative positions, clipped at a distance, in place of sinusoids."""
    return {"model.self_attention": {"kind": "relative", "max_distance": distance}, **NO_POSITIONS}


UNSCALED = {"model.self_attention.kind": "unscaled"}
DEEP_NO_RESIDUAL = {"model.num_layers": DEEP, **without("residual")}
ROWS = (
    Row("standard", "scaled dot product"),
    Row("unscaled", "unscaled", UNSCALED),
    Row("relative_8", "relative (Shaw), k=8", relative(8), scales=TO_QUICK),
    cpu("relative", "relative (Shaw), k=16", relative(16)),
    Row("linformer_8", "Linformer, rank 8", linformer(8)),
    Row("linformer_4", "Linformer, rank 4", linformer(4), scales=TO_QUICK),
    cpu("linformer_16", "Linformer, rank 16", linformer(16)),
    cpu("linformer_32", "Linformer, rank 32", linformer(32)),
    Row("no_positions", "no positions", NO_POSITIONS),
    cpu("t5", "T5 bias", {"model.self_attention.kind": "t5", **NO_POSITIONS}),
    cpu("learned", "learned positions", {"model.positions.kind": "learned"}),
    cpu("heads_1", "1 head", {"model.num_heads": 1}),
    cpu("heads_4", "4 heads", {"model.num_heads": 4}),
    cpu("heads_8", "8 heads", {"model.num_heads": 8}),
    cpu("unscaled_heads_1", "1 head, unscaled", {"model.num_heads": 1, **UNSCALED}),
    cpu("linformer_none", "Linformer, rank 16, sharing none", linformer(16, sharing="none")),
    cpu("linformer_headwise", "Linformer, rank 16, sharing headwise", linformer(16, sharing="headwise")),
    cpu("linformer_key_value", "Linformer, rank 16, sharing key-value", linformer(16, sharing="key_value")),
    cpu("linformer_layerwise", "Linformer, rank 16, sharing layerwise", linformer(16, sharing="layerwise")),
    cpu("no_feed_forward", "no feed-forward", without("feed_forward")),
    cpu("no_residual", "no residuals", without("residual")),
    cpu("no_norm", "no normalisation", without("norm")),
    cpu("no_mask", "no causal mask", {"model.decoder.self_attention": {"kind": "unmasked"}}),
    Row("deep", f"{DEEP} layers", {"model.num_layers": DEEP}, scales=("cpu",)),
    Row("deep_no_residual", f"{DEEP} layers, no residuals", DEEP_NO_RESIDUAL, scales=("cpu",)),
    # Other systems on the same dictionary, with another split of its words: g2p-seq2seq, the column "CMUdict latest".
    Row("phonetisaurus", "Phonetisaurus, WFST", scales=()),
    Row("lstm_64", "recurrent, 2 layers of 64", scales=()),
    Row("lstm_512", "recurrent, 2 layers of 512", scales=()),
    Row("transformer_256", "Transformer, 3 layers of 256", scales=()),
)

#: What the scales of words and sounds measure and show.
SOUND_STAGES = (train, evaluate, measure(measure_words, words=("attention", "neighborhoods", "psychologist")))
PHONEME_ERRORS = Column("evaluate.error_rate", "phoneme errors, %", fixed(1), better="lower")
WORD_ERRORS = Column("evaluate.word_error_rate", "word errors, %", fixed(1), better="lower")
SOUND_COLUMNS = (PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PHONEME_ERRORS, WORD_ERRORS)


def _both(results: Results, better: str, worse: str, name: str) -> dict[str, Comparison]:
    """Loss and BLEU of two rows, under a name."""
    return {
        f"loss, {name}": compare(results, better, worse),
        f"BLEU, {name}": compare(results, better, worse, "evaluate.bleu", higher=True),
    }


def scaling_helps_training(results: Results) -> Verdict:
    """Scaled against unscaled scores at two key widths: the configuration's, and one head as wide as the model."""
    narrow = _both(results, "standard", "unscaled", "the configuration's key width")
    return conclude({**narrow, **_both(results, "heads_1", "unscaled_heads_1", "key width = model width")})


def necessary_parts(results: Results) -> Verdict:
    """The standard row against the rows with one part taken out.

    Without its mask a decoder sees the token that it is asked for, so that its losses say nothing: BLEU alone judges.
    """
    parts = {
        "positions": "no_positions",
        "feed-forward": "no_feed_forward",
        "residuals": "no_residual",
        "normalisation": "no_norm",
    }
    cases = {}
    for part, row in parts.items():
        cases |= _both(results, "standard", row, part)
    cases["BLEU, masking"] = compare(results, "standard", "no_mask", "evaluate.bleu", higher=True)
    return conclude(cases)


def residuals_help_training(results: Results) -> Verdict:
    """Training loss with and without residuals, at two depths."""
    return conclude(
        {
            "loss, the configuration's depth": compare(results, "standard", "no_residual"),
            f"loss, {DEEP} layers": compare(results, "deep", "deep_no_residual"),
        }
    )


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{SOUNDS}:smoke", seeds=1, jobs=2, stages=SOUND_STAGES, columns=SOUND_COLUMNS),
        "quick": Scale(
            f"{SOUNDS}:quick",
            seeds=2,
            jobs=2,
            stages=SOUND_STAGES,
            columns=SOUND_COLUMNS,
            reference="standard",
            decided_by=WORD_ERRORS,
        ),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=2, jobs=2),
        "gpu": Scale(f"{CONFIG}:vaswani_base", GPU, seeds=2, replicas=True),
        "paper": Scale(f"{CONFIG}:vaswani_base", PAPER, seeds=2),
    },
    published="attention.csv",
    claims="../claims.csv",
    competence=(Competence("standard", "evaluate.perplexity", "trigram"),),
    verdicts={
        "scaling-helps-training": scaling_helps_training,
        "necessary-parts": necessary_parts,
        "residuals-help-training": residuals_help_training,
    },
    figures=(draw_words, by_row(WORD_ERRORS, printed="word errors, %")),
)
