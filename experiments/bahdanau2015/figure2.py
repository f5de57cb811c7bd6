"""Bahdanau et al. 2015, Figure 2: BLEU against source length, with and without attention, for two training lengths.

    attention-research reproduce bahdanau2015/figure2 --scale=cpu

The first four rows and their trials are those of `bahdanau2015/table1`, so results can be copied from one study to the
other. The last four rows translate generated sentences of 4 to 60 words and are trained on sentences of up to 14 or 30
words. On these sentences a model can be trained well in minutes, and lengths are in words. The paper does not publish
its curves as numbers, so the figure shows only ours.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.analysis.by_length import measure as by_length
from attention_research.analysis.teacher_forced import measure_maps
from attention_research.studies import Budget, Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, against, compare, conclude

from .strings import ENCDEC, LONG, NOTE, SHORT, STAGES, criteria
from .strings import row as of_strings

CONFIG = "configs/translation/recurrent.py"
#: Training lengths of generated sentences in words, with the end-of-sentence symbol.
GENERATED_SHORT, GENERATED_LONG = 15, 31
GENERATED = (
    train,
    evaluate,
    measure(by_length, edges=(4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 50, 61), longest=96, fitting=GENERATED_LONG),
)


def generated(id: str, name: str, changes: dict, length: int) -> Row:
    """A row on generated sentences with local reordering, trained on up to `length` words."""
    data = {
        "name": "generated_translation/local_long",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (length,)},
    }
    return Row(id, name, {"max_length": length, "vocabulary_size": 300, "data": data, **changes}, stages=GENERATED)


ROWS = (
    of_strings("encdec_30", "RNNencdec-30", ENCDEC, SHORT),
    of_strings("search_30", "RNNsearch-30", {}, SHORT),
    of_strings("encdec", "RNNencdec-50", ENCDEC, LONG),
    of_strings("search", "RNNsearch-50", {}, LONG, stages=(*STAGES, measure(measure_maps))),
    generated("generated_encdec_30", "generated: RNNencdec, up to 14 words", ENCDEC, GENERATED_SHORT),
    generated("generated_search_30", "generated: RNNsearch, up to 14 words", {}, GENERATED_SHORT),
    generated("generated_encdec", "generated: RNNencdec, up to 30 words", ENCDEC, GENERATED_LONG),
    generated("generated_search", "generated: RNNsearch, up to 30 words", {}, GENERATED_LONG),
)
#: (row with attention, row without, data)
PAIRS = (
    ("search_30", "encdec_30", "strings, short"),
    ("search", "encdec", "strings, long"),
    ("generated_search_30", "generated_encdec_30", "generated, short"),
    ("generated_search", "generated_encdec", "generated, long"),
)


def bottleneck(results: Results) -> Verdict:
    """The slope of BLEU against length is below 0 for the models without attention."""
    return conclude({name: against(results, row, "measure.length_slope", higher=False) for _, row, name in PAIRS})


def separated_beyond(results: Results) -> Verdict:
    """On sentences longer than all training sentences, BLEU is higher with attention than without."""
    return conclude({
        f"BLEU beyond the training length, {name}": compare(results, with_, without, "measure.bleu_beyond", higher=True)
        for with_, without, name in PAIRS
    })  # fmt: skip


def lifted(results: Results) -> Verdict:
    """Attention keeps a larger share of the best bucket's BLEU in the longest bucket.

    The text has the difference of the longest to the shortest bucket: a model that translates short sentences badly
    cannot lose many points.
    """
    cases, said = {}, []
    for with_, without, name in PAIRS:
        cases[f"share, {name}"] = compare(results, with_, without, "measure.longest_share", higher=True)
        found = compare(results, with_, without, "measure.longest_minus_shortest", higher=True)
        said.append(f"difference, {name}: {found.said}")
    return conclude(cases).beside(*said)


def by_source_length(results: Results, folder: Path) -> Figure | None:
    """Draws the mean BLEU of each bucket at its mean length, for strings (left) and generated sentences (right).

    The bands show the range over seeds.
    """
    panels = [ROWS[:4], ROWS[4:]]
    curves = {row.id: curve for row in ROWS if (curve := mean_curve(results, row.id))}
    if not curves:
        return None
    pyplot = canvas()
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.8))
    lengths = ((None, None), (GENERATED_SHORT - 1, GENERATED_LONG - 1))
    titles = ("strings of user interfaces", "generated sentences")
    for axis, rows, title, trained in zip(axes, panels, titles, lengths, strict=True):
        looks = styles_of(
            f"{model}, {size} training sentences"
            for size in ("short", "short and long")
            for model in ("RNNencdec", "RNNsearch")
        )
        for row, (label, style) in zip(rows, looks.items(), strict=True):
            if row.id in curves:
                words, mean, low, high = curves[row.id]
                axis.plot(words, mean, label=label, markersize=5, linewidth=1.4, **style)
                axis.fill_between(words, low, high, color=style["color"], alpha=0.15, linewidth=0)
        for length in filter(None, trained):
            axis.axvline(length, color="#888888", linewidth=0.8, linestyle=":")
        axis.set_title(title)
        axis.set_xlabel("words in the source" + ("\n(dotted: longest training sentences)" if all(trained) else ""))
        axis.set_ylabel("BLEU")
        axis.set_ylim(bottom=0)
    legend(figure, columns=2)
    path = folder / "bleu_by_length.png"
    save(figure, path, caption(results, "lines: mean over seeds, bands: range of the seeds", rows=list(curves)))
    names = {row.id: row.name for row in ROWS}
    said = "; ".join(f"{names[row]} {curve[1][0]:.1f} to {curve[1][-1]:.1f}" for row, curve in curves.items())
    title = "BLEU against source length, mean and range over seeds"
    return Figure(path, title, f"BLEU from the shortest to the longest bucket: {said}.")


def mean_curve(results: Results, row: str) -> tuple[list[float], list[float], list[float], list[float]] | None:
    """Returns (words, mean, lowest, highest BLEU) of the buckets for which every finished seed of a row has a score."""
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


NOTE = f"{NOTE} Generated sentences are not French. Buckets with fewer than 20 sentences have no score."
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 64}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
    },
    stages=STAGES,
    columns=(
        PARAMETERS, LOSS, PERPLEXITY,
        Column("measure.bleu_fitting", "BLEU, training lengths", fixed(1), better="higher"),
        Column("measure.bleu_beyond", "BLEU, longer sentences", fixed(1), better="higher"),
        Column("measure.bleu_shortest", "BLEU, shortest bucket", fixed(1), better="higher"),
        Column("measure.bleu_longest", "BLEU, longest bucket", fixed(1), better="higher"),
        Column("measure.longest_share", "longest bucket, % of best", fixed(0, 100), better="higher"),
        Column("measure.length_slope", "slope, BLEU per word", fixed(2)),
    ),
    budgets=(
        Budget("search", {"encdec": ("encdec_30",)}),
        Budget(
            "generated_search",
            {"generated_search": ("generated_search_30",), "generated_encdec": ("generated_encdec_30",)},
        ),
    ),
    claims="../claims.csv",
    # A generated sentence has exactly one correct translation. Rows trained on short sentences are tested on short
    # ones.
    competence=(
        *criteria("search*", "encdec*"),
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
