"""Bahdanau et al. 2015, Figure 2: BLEU against the source's length, with and without attention, two training lengths.

    attention-research reproduce bahdanau2015/figure2 --scale=cpu

The first four rows are those of `bahdanau2015/table1`, and so are their trials: a result of one study can be copied to
the other. The last four translate generated sentences of 4 to 60 words, of which up to 14 or 30 are learnt: there a
model can be trained well in minutes, and lengths are words. The paper's curves were never published as numbers: the
picture holds ours alone.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.analysis.by_length import measure as by_length
from attention_research.analysis.teacher_forced import measure_maps
from attention_research.studies import Budget, Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, canvas, save, styles
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, against, compare, conclude

from .interventions import measure as interventions

CONFIG = "configs/translation/recurrent.py"
#: Training lengths in pieces of verses (table1's) and in words of generated sentences, the end of sentence counted.
SHORT, LONG = 24, 32
GENERATED_SHORT, GENERATED_LONG = 15, 31
STAGES = (
    train,
    evaluate,
    measure(by_length, edges=(1, 10, 15, 20, 25, 30, 40, 60), longest=96, fitting=LONG),
    measure(interventions, longest=LONG),
)
GENERATED = (
    train,
    evaluate,
    measure(by_length, edges=(4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 50, 61), longest=96, fitting=GENERATED_LONG),
)
ENCDEC = {"model.encoder": {"kind": "unidirectional"}, "model.alignment": {"kind": "last_state"}}


def generated(id: str, name: str, changes: dict, length: int) -> Row:
    """A row on generated sentences in a locally different order, learnt up to `length` words."""
    data = {
        "name": "generated_translation/local_long",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (length,)},
    }
    return Row(id, name, {"max_length": length, "vocabulary_size": 300, "data": data, **changes}, stages=GENERATED)


ROWS = (
    Row("encdec_30", "RNNencdec-30", {**ENCDEC, "max_length": SHORT}),
    Row("search_30", "RNNsearch-30", {"max_length": SHORT}),
    Row("encdec", "RNNencdec-50", {**ENCDEC, "max_length": LONG}),
    Row("search", "RNNsearch-50", {"max_length": LONG}, stages=(*STAGES, measure(measure_maps))),
    generated("generated_encdec_30", "generated: RNNencdec, up to 14 words", ENCDEC, GENERATED_SHORT),
    generated("generated_search_30", "generated: RNNsearch, up to 14 words", {}, GENERATED_SHORT),
    generated("generated_encdec", "generated: RNNencdec, up to 30 words", ENCDEC, GENERATED_LONG),
    generated("generated_search", "generated: RNNsearch, up to 30 words", {}, GENERATED_LONG),
)
#: (with attention, without, on what)
PAIRS = (
    ("search_30", "encdec_30", "verses, short"),
    ("search", "encdec", "verses, long"),
    ("generated_search_30", "generated_encdec_30", "generated, short"),
    ("generated_search", "generated_encdec", "generated, long"),
)


def bottleneck(results: Results) -> Verdict:
    """The slope of BLEU against length of the models without attention: below 0."""
    return conclude({name: against(results, row, "measure.length_slope", higher=False) for _, row, name in PAIRS})


def separated_beyond(results: Results) -> Verdict:
    """BLEU of sentences longer than any that were learnt, with attention against without."""
    return conclude({
        f"BLEU beyond the training length, {name}": compare(results, with_, without, "measure.bleu_beyond", higher=True)
        for with_, without, name in PAIRS
    })  # fmt: skip


def lifted(results: Results) -> Verdict:
    """What is left in the longest bucket, as a difference to the shortest and as a share of the best."""
    cases = {}
    for with_, without, name in PAIRS:
        for key, what in (("longest_minus_shortest", "difference"), ("longest_share", "share")):
            cases[f"{what}, {name}"] = compare(results, with_, without, f"measure.{key}", higher=True)
    return conclude(cases)


def by_source_length(results: Results, folder: Path) -> Figure | None:
    """Mean BLEU of each bucket at its mean length, with the seeds' range as a band: verses left, generated right."""
    panels = [ROWS[:4], ROWS[4:]]
    curves = {row.id: curve for row in ROWS if (curve := mean_curve(results, row.id))}
    if not curves:
        return None
    pyplot = canvas()
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 4.6))
    lengths = ((None, None), (GENERATED_SHORT - 1, GENERATED_LONG - 1))
    for axis, rows, title, trained in zip(axes, panels, ("Bible verses", "generated sentences"), lengths, strict=True):
        for row, style in zip(rows, styles(), strict=False):
            if row.id in curves:
                words, mean, low, high = curves[row.id]
                axis.plot(words, mean, label=row.name.removeprefix("generated: "), markersize=5, linewidth=1.4, **style)
                axis.fill_between(words, low, high, color=style["color"], alpha=0.15, linewidth=0)
        for length in filter(None, trained):
            axis.axvline(length, color="#888888", linewidth=0.8, linestyle=":")
        axis.set_title(f"{results.study.name} · {results.scale} · {title}", loc="left", fontsize=11)
        axis.set_xlabel("words in the source" + (" (dotted: the longest learnt)" if all(trained) else ""))
        axis.set_ylabel("BLEU")
        axis.set_ylim(bottom=0)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2)
    path = folder / "bleu_by_length.png"
    save(pyplot, figure, path)
    names = {row.id: row.name for row in ROWS}
    said = "; ".join(f"{names[row]} {curve[1][0]:.1f} to {curve[1][-1]:.1f}" for row, curve in curves.items())
    title = "BLEU against source length, mean over seeds; the band is the seeds' range"
    return Figure(path, title, f"BLEU from the shortest to the longest bucket: {said}.")


def mean_curve(results: Results, row: str) -> tuple[list[float], list[float], list[float], list[float]] | None:
    """(words, mean, least, greatest BLEU) of the buckets that every finished seed of a row has a score for."""
    seeds = [entry.result["stages"].get("measure", {}) for entry in results.of(row) if entry.result]
    seeds = [numbers for numbers in seeds if "length_bleu" in numbers]
    if not seeds:
        return None
    buckets = [
        (words, bleu)
        for words, *bleu in zip(seeds[0]["length_words"], *(numbers["length_bleu"] for numbers in seeds), strict=True)
        if None not in bleu
    ]
    if not buckets:
        return None
    scores = [bleu for _, bleu in buckets]
    means = [statistics.fmean(one) for one in scores]
    return [words for words, _ in buckets], means, [*map(min, scores)], [*map(max, scores)]


NOTE = (
    "Bible verses, English to French, learnt up to 24 pieces (-30) and 32 (-50); generated sentences say nothing of "
    "French. A bucket of fewer than 20 sentences has no score; bleu.png is of sentences cut to what was learnt."
)
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 64}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
    },
    stages=STAGES,
    columns=(
        PARAMETERS, LOSS, PERPLEXITY,
        Column("measure.bleu_fitting", "BLEU, learnt lengths", fixed(1), better="higher"),
        Column("measure.bleu_beyond", "BLEU beyond", fixed(1), better="higher"),
        Column("measure.bleu_shortest", "shortest bucket", fixed(1), better="higher"),
        Column("measure.bleu_longest", "longest bucket", fixed(1), better="higher"),
        Column("measure.longest_share", "longest, % of the best", fixed(0, 100), better="higher"),
        Column("measure.length_slope", "BLEU a word", fixed(2)),
    ),
    budgets=(
        Budget("search", {"encdec": ("encdec_30",)}),
        Budget(
            "generated_search",
            {"generated_search": ("generated_search_30",), "generated_encdec": ("generated_encdec_30",)},
        ),
    ),
    claims="../claims.csv",
    # A generated sentence has one right translation; of the rows that learn short ones, short ones are asked.
    competence=(
        Competence("search", "evaluate.perplexity", "trigram", rows=("search*", "encdec*")),
        Competence(
            "generated_search",
            "measure.bleu_fitting",
            line=90,
            higher=True,
            rows=("generated_search", "generated_encdec"),
        ),
        Competence(
            "generated_search_30",
            "measure.bleu_shortest",
            line=90,
            higher=True,
            rows=("generated_search_30", "generated_encdec_30"),
        ),
    ),
    verdicts={
        "fixed-vector-bottleneck": bottleneck,
        "bleu-by-length-figure": separated_beyond,
        "attention-lifts-bottleneck": lifted,
    },
    figures=(by_source_length,),
)  # fmt: skip
