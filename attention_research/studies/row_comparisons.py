"""Compares two rows of a study, as `comparisons` compares two lists of numbers.

Seeds are paired if both trials of every seed see the same batches. If the evaluations of both rows store the sentence
statistics of a score (`tasks.sentence_statistics`), `compare` makes two tests. The test over seeds asks whether the
difference would remain after another training. A paired bootstrap over the items of the test set asks whether it would
remain on another test set. A difference is clear only if both tests are clear, so p is the larger of the two p-values.
It bounds the probability of a false finding, before and after the correction.

The row that a claim calls better must have learned its task (`competence`). Otherwise the comparison has no p-value.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attention_research.studies import competence
from attention_research.studies.comparisons import Alone, Comparison, Margin, between, within

if TYPE_CHECKING:
    from attention_research.studies.results import Entry, Results
    from attention_research.studies.trials import Trial

    Run = tuple[Entry, float]

#: The key under which an evaluation stores its sentence statistics (`tasks.sentence_statistics`).
STATISTICS = "sentence_statistics"


def compare(results: Results, better: str, worse: str, key: str = "train.loss", *, higher: bool = False) -> Comparison:
    """Compares two rows, given by their ids. Lower numbers are better, or higher ones with ``higher``.

    ``gain`` is positive if ``better`` is better. The row ``better`` must have learned its task (`studies.competence`);
    the row ``worse`` need not.
    """
    ours, theirs, in_pairs = runs_of(results, better, worse, key, higher=higher)
    first, second = ([value for _, value in side] for side in (ours, theirs))
    found = between(better, worse, first, second, key.split(".")[1], in_pairs=in_pairs, higher=higher)
    return learned(results, _over_items(found, ours, theirs, key, higher=higher), better)


def against(results: Results, row: str, key: str, other: str | float = 0.0, *, higher: bool = True) -> Comparison:
    """Compares a row's number with another number of the same runs, given by its key, or with a fixed number."""
    ours = results.judged(row, key, higher=higher)
    theirs = results.values(row, other) if isinstance(other, str) else [other] * len(ours)
    said = other.split(".")[1] if isinstance(other, str) else ""
    in_pairs = len(ours) == len(theirs)
    return learned(results, between(row, said, ours, theirs, key.split(".")[1], in_pairs=in_pairs, higher=higher), row)


def no_worse(
    results: Results, row: str, other: str, key: str, margin: Margin | None, *, higher: bool = False
) -> Comparison:
    """Tests whether a row is worse than another by less than a margin. Reversed if it is worse by more."""
    found = _compared_within(results, row, other, key, margin, higher=higher, both=False)
    return learned(results, found, row)


def equivalent(
    results: Results, row: str, other: str, key: str, margin: Margin | None, *, higher: bool = False
) -> Comparison:
    """Tests whether two rows differ by less than a margin. Reversed if they differ by more.

    p is the larger one of two one-sided tests (Schuirmann 1987).
    """
    found = _compared_within(results, row, other, key, margin, higher=higher, both=True)
    return learned(results, found, row, other)


def near(
    results: Results, row: str, key: str, number: float, margin: Margin | None, *, higher: bool = False
) -> Comparison:
    """Tests whether a row's number differs from a fixed number by less than a margin, as `equivalent`."""
    ours = results.judged(row, key, higher=higher)
    theirs = [number] * len(ours)
    found = within(row, "", ours, theirs, key.split(".")[1], margin, in_pairs=True, higher=higher, both=True)
    return learned(results, found, row)


def apart(results: Results, rows: Sequence[str], key: str, *, higher: bool = False) -> Comparison:
    """Tests whether any two of several rows differ: compares the best row with the worst. A diverged run is the worst.

    p is multiplied by the number of ordered pairs of rows (Bonferroni's correction). The outcome is never reversed.
    """
    runs = {row: results.judged(row, key, higher=higher) for row in rows}
    means = {row: statistics.fmean(values) for row, values in runs.items() if values}
    if len(means) < 2:
        return Comparison("", "", None, "fewer than two rows are measured")
    order = sorted(means, key=means.__getitem__, reverse=higher)
    found = compare(results, order[0], order[-1], key, higher=higher)
    pairs = len(order) * (len(order) - 1)
    return found if found.p is None else dataclasses.replace(found, p=min(1.0, pairs * found.p), p_reversed=1.0)


def _compared_within(
    results: Results, row: str, other: str, key: str, margin: Margin | None, *, higher: bool, both: bool
) -> Comparison:
    """`within` for two rows, with a test over test items as in `compare`."""
    ours, theirs, in_pairs = runs_of(results, row, other, key, higher=higher)
    first, second = ([value for _, value in side] for side in (ours, theirs))
    found = within(row, other, first, second, key.split(".")[1], margin, in_pairs=in_pairs, higher=higher, both=both)
    if margin is None or found.p is None or not all(map(math.isfinite, second)):
        return found
    size = margin.of(statistics.fmean(second))
    return _over_items(found, ours, theirs, key, higher=higher, margin=size, both=both)


def learned(results: Results, found: Comparison, *rows: str) -> Comparison:
    """The comparison. If one of these rows has not learned its task, it has no p-value but gives this reason."""
    refused = next(filter(None, (competence.refusal(results, row) for row in rows)), "")
    if not refused or found.gain is None:
        return found
    return Comparison(found.better, found.worse, found.gain, f"{found.said}, {refused}")


def _over_items(
    found: Comparison,
    ours: Sequence[Run],
    theirs: Sequence[Run],
    key: str,
    *,
    higher: bool,
    margin: float = 0.0,
    both: bool = False,
) -> Comparison:
    """The comparison with a test over test items in its p-values, if the evaluations of all trials store statistics.

    `margin` and `both` are those of `within`. The bootstrap resamples the difference of the means over seeds, as the
    table shows it. Each resample takes the same items for all seeds of both rows. The trained models are fixed here:
    the test over seeds covers their variation.
    """
    stage, name = key.split(".", 1)
    stored = [[entry.result["stages"].get(stage, {}).get(STATISTICS) for entry, _ in side if entry.result]
              for side in (ours, theirs)]  # fmt: skip
    if found.p is None or found.p_reversed is None or not any(map(any, stored)):
        return found
    from attention_research.studies.differences import p_over_items, resampled

    on_test_sets = resampled([*stored[0], *stored[1]], name)
    if on_test_sets is None:
        return dataclasses.replace(found, said=f"{found.said}, the choice of test items was not tested")
    count, sign = len(stored[0]), 1.0 if higher else -1.0
    of = lambda scores: sign * (scores[:count].mean(0) - scores[count:].mean(0))
    gain, gains = of(on_test_sets.scores), of(on_test_sets.resamples)
    above, below = map(float, p_over_items(gain + margin, gains + margin))
    if both:  # within the margin on both sides
        more, less = map(float, p_over_items(gain - margin, gains - margin))
        above, below = max(above, less), min(1.0, 2 * min(below, more))
    alone, turned = Alone(found.p, above), Alone(found.p_reversed, below)
    return dataclasses.replace(
        found, p=max(alone), p_reversed=max(turned), items=on_test_sets.items, alone=alone, alone_reversed=turned
    )


def runs_of(results: Results, row: str, other: str, key: str, *, higher: bool) -> tuple[list[Run], list[Run], bool]:
    """The numbers of both rows with their trials, and whether they are paired. A diverged run has the worst number."""
    stage = key.split(".")[0]
    worst = -math.inf if higher else math.inf
    ours, theirs = (results.by_seed(one, key, worst) for one in (row, other))
    places = [place for place in ours if place in theirs]
    in_pairs = len(places) > 1 and all(same_batches(ours[p][0].trial, theirs[p][0].trial, stage) for p in places)
    if in_pairs:
        ours, theirs = ({place: side[place] for place in places} for side in (ours, theirs))
    return [*ours.values()], [*theirs.values()], in_pairs


def averages(results: Results, row: str, keys: Sequence[str], *, higher: bool) -> list[float]:
    """The mean over several keys for each seed that has them all. It is the worst number if one of them diverged."""
    by_key = [results.by_seed(row, key, -math.inf if higher else math.inf) for key in keys]
    places = [place for place in by_key[0] if all(place in one for one in by_key)]
    return [statistics.fmean(one[place][1] for one in by_key) for place in places]


def same_batches(trial: Trial, other: Trial, stage: str = "train") -> bool:
    """Whether two trials train on the same batches in the same order. `stage` is "train" or the name of a fine-tuning.

    True if both configs have the same data, lengths, vocabulary, batch size, steps and data seed.
    """
    ours, theirs = (_batches(one, stage) for one in (trial, other))
    return ours is not None and ours == theirs


def _batches(trial: Trial, stage: str) -> list[Any] | None:
    tuned = [one["settings"]["given"] for one in trial.stages if one["settings"].get("name") == stage]
    given = tuned[0] if tuned else trial.given
    if not given or "data" not in given:
        return None
    training = given.get("training", {})
    seed = training.get("data_seed")
    sizes = [given.get(name) for name in ("max_length", "vocabulary_size")]
    order = [training.get("batch_size"), training.get("steps"), trial.seed if seed is None else seed]
    return [given["data"], *sizes, *order]
