"""Compares two rows of a study: by how much one is better, and how certain the difference is.

A comparison has two one-sided p-values (`differences`): that `better` is better, and that it is worse. It is clear if
the first is at most `LEVEL`, and reversed if the second is. Seeds are paired if both trials of every seed see the same
batches. If several comparisons make one claim, their p-values are corrected (`together`).

If the evaluations of both rows store the sentence statistics of a score (`tasks.sentence_statistics`), `compare` makes
two tests. The test over seeds asks whether the difference would remain after another training. A paired bootstrap over
the items of the test set asks whether it would remain on another test set. A difference is clear only if both tests are
clear, so p is the larger of the two p-values. It bounds the probability of a false finding, before and after the
correction.

Equality of two rows (`equivalent`, `no_worse`) is shown only within a margin that was declared in advance. With few
seeds most differences are not clear, so "not clear" is no evidence of equality.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from attention_research.studies import competence

if TYPE_CHECKING:
    from attention_research.studies.results import Entry, Results
    from attention_research.studies.trials import Trial

    _Run = tuple[Entry, float]

#: The key under which an evaluation stores its sentence statistics (`tasks.sentence_statistics`).
STATISTICS = "sentence_statistics"
LEVEL = 0.05
NO_MARGIN = "no margin was declared"
#: The possible outcomes of a comparison.
CLEAR, REVERSED, OPEN, UNMEASURED = "clear", "reversed", "not clear", "not measured"


class Alone(NamedTuple):
    """The separate p-values of a comparison over seeds and over test items, not corrected."""

    seeds: float
    items: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """By how much one row is better than another, and the p-values of both directions.

    `p` is None if there are fewer than two seeds. `said` describes the two means and, without p, the reason. `items` is
    the number of test items if p includes a test over them. Then `alone` and `alone_reversed` hold the separate
    p-values, and `p` and `p_reversed` are the larger ones of each pair.
    """

    better: str
    worse: str
    gain: float | None
    said: str
    p: float | None = None
    p_reversed: float | None = None
    seeds: int = 0
    items: int = 0
    alone: Alone | None = None
    alone_reversed: Alone | None = None

    @property
    def outcome(self) -> str:
        if self.p is None or self.p_reversed is None:
            return UNMEASURED
        return CLEAR if self.p <= LEVEL else REVERSED if self.p_reversed <= LEVEL else OPEN

    @property
    def clear(self) -> bool | None:
        """Whether the comparison is clear; None if it was not measured."""
        return None if self.outcome == UNMEASURED else self.outcome == CLEAR

    @property
    def numbers(self) -> str:
        """The means, with the number of seeds and the p-value that decides the outcome."""
        return f"{self.said}{self._certainty}"

    @property
    def text(self) -> str:
        """The numbers with the outcome in words."""
        return self.said if self.outcome == UNMEASURED else f"{self.said}, {self.outcome}{self._certainty}"

    @property
    def _certainty(self) -> str:
        if self.p is None or self.p_reversed is None or not self.seeds:
            return ""
        turned = self.outcome == REVERSED
        p, alone = (self.p_reversed, self.alone_reversed) if turned else (self.p, self.alone)
        over, of = f"{self.seeds} seeds", ""
        if alone is not None:
            over += f" and {self.items:,} test items"
            of = f", over seeds alone {_spelled(alone.seeds)}, over items alone {_spelled(alone.items)}"
        return f" over {over} ({_spelled(p)}{of})"


def with_reference(results: Results) -> str:
    """Every row compared with the scale's reference row, in words; empty if the scale has no reference row.

    The numbers decide which of two rows is tested as the better one. Therefore p is two-sided: twice the smaller one.
    """
    size = results.study.scales.get(results.scale)
    column = size.decided_by if size else None
    if size is None or column is None:
        return ""
    higher, theirs = column.better == "higher", results.mean(size.reference, column.key)
    cases, gains = {}, {}
    for row in results.rows:
        ours = results.mean(row.id, column.key)
        if row.id == size.reference or ours is None or theirs is None:
            continue
        pair = (row.id, size.reference) if (ours > theirs) == higher else (size.reference, row.id)
        one = compare(results, *pair, column.key, higher=higher)
        cases[row.name] = one if one.p is None else dataclasses.replace(one, p=min(1.0, 2 * one.p), p_reversed=1.0)
        gains[row.name] = f"{'+' if ours > theirs else '-'}{column.text(abs(ours - theirs))}"
    said = [
        f"{name} {gains[name]}, {one.outcome}" + ("" if one.p is None else f" ({_spelled(one.p)})")
        for name, one in together(cases).items()
    ]
    name = next((row.name for row in results.rows if row.id == size.reference), size.reference)
    return f"{column.title}, against {name}: {'; '.join(said)}." if said else ""


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


def compare(results: Results, better: str, worse: str, key: str = "train.loss", *, higher: bool = False) -> Comparison:
    """Compares two rows, given by their ids. Lower numbers are better, or higher ones with ``higher``.

    ``gain`` is positive if ``better`` is better. The row ``better`` must have learned its task (`studies.competence`);
    the row ``worse`` need not.
    """
    ours, theirs, in_pairs = _runs_of(results, better, worse, key, higher=higher)
    first, second = ([value for _, value in side] for side in (ours, theirs))
    found = between(better, worse, first, second, key.split(".")[1], in_pairs=in_pairs, higher=higher)
    return learned(results, _over_items(found, ours, theirs, key, higher=higher), better)


def _over_items(
    found: Comparison,
    ours: Sequence[_Run],
    theirs: Sequence[_Run],
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


def learned(results: Results, found: Comparison, *rows: str) -> Comparison:
    """The comparison. If one of these rows has not learned its task, it has no p-value but gives this reason."""
    refused = next(filter(None, (competence.refusal(results, row) for row in rows)), "")
    if not refused or found.gain is None:
        return found
    return Comparison(found.better, found.worse, found.gain, f"{found.said}, {refused}")


def between(
    better: str,
    worse: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    name: str,
    *,
    in_pairs: bool = False,
    higher: bool = True,
) -> Comparison:
    """Compares two lists with one number for each seed. `better` and `worse` name the two sides.

    NaN and the worst infinite value mean that the run diverged. Lower numbers are better unless `higher`. With
    ``in_pairs`` the i-th numbers of both lists are a pair.

    >>> found = between("scaled", "unscaled", [21.0, 20.6, 20.8], [19.9, 20.1, 19.7], "bleu", in_pairs=True)
    >>> print(found.text)
    bleu 20.8 (scaled) against 19.9 (unscaled), clear over 3 seeds (p = 0.023)
    """
    ours, theirs = signed(ours, higher=higher), signed(theirs, higher=higher)
    gain, said = described(better, worse, ours, theirs, name, higher=higher)
    seeds = min(len(ours), len(theirs))
    if seeds < 2:
        return Comparison(better, worse, gain, f"{said}, one seed: nothing is clear" if seeds else said)
    from attention_research.studies.differences import p_above  # imports NumPy, which planning does not need

    p = p_above(ours, theirs, in_pairs=in_pairs)
    return Comparison(better, worse, gain, said, p, p_above(theirs, ours, in_pairs=in_pairs), seeds)


def against(results: Results, row: str, key: str, other: str | float = 0.0, *, higher: bool = True) -> Comparison:
    """Compares a row's number with another number of the same runs, given by its key, or with a fixed number."""
    ours = [value for _, value in _by_seed(results, row, key, -math.inf if higher else math.inf).values()]
    theirs = results.values(row, other) if isinstance(other, str) else [other] * len(ours)
    said = other.split(".")[1] if isinstance(other, str) else ""
    in_pairs = len(ours) == len(theirs)
    return learned(results, between(row, said, ours, theirs, key.split(".")[1], in_pairs=in_pairs, higher=higher), row)


def apart(results: Results, rows: Sequence[str], key: str, *, higher: bool = False) -> Comparison:
    """Tests whether any two of several rows differ: compares the best row with the worst.

    p is multiplied by the number of ordered pairs of rows (Bonferroni's correction). The outcome is never reversed.
    """
    means = {row: mean for row in rows if (mean := results.mean(row, key)) is not None}
    order = sorted(means, key=means.__getitem__, reverse=higher) or [*rows]
    found = compare(results, order[0], order[-1], key, higher=higher)
    pairs = len(order) * (len(order) - 1)
    return found if found.p is None else dataclasses.replace(found, p=min(1.0, pairs * found.p), p_reversed=1.0)


def certain(better: str, worse: str, gain: float, said: str) -> Comparison:
    """A comparison of exact numbers, such as counts.

    >>> certain("linformer", "standard", 3.0, "3 GB less").text
    '3 GB less, clear'
    """
    p = 0.0 if gain > 0 else 1.0 if gain < 0 else 0.5
    return Comparison(better, worse, gain, said, p, 1.0 - p)


@dataclasses.dataclass(frozen=True)
class Margin:
    """The largest difference at which two numbers count as equal: absolute, or relative to the second number."""

    value: float
    relative: bool = False

    @staticmethod
    def parse(text: str) -> Margin | None:
        """Parses ``0.5`` or ``3%``, as in claims.csv; None for an empty text.

        >>> str(Margin.parse("3%")), Margin.parse("3%").of(-50), Margin.parse("")
        ('3%', 1.5, None)
        """
        value = text.strip()
        if not value:
            return None
        number = float(value.removesuffix("%"))
        if not 0 < number < math.inf:
            raise ValueError(f"margin {text!r}: expected a number above 0, or one with %")
        return Margin(number / 100, True) if value.endswith("%") else Margin(number)

    def of(self, mean: float) -> float:
        return self.value * abs(mean) if self.relative else self.value

    def __str__(self) -> str:
        return f"{100 * self.value:g}%" if self.relative else f"{self.value:g}"


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


def _compared_within(
    results: Results, row: str, other: str, key: str, margin: Margin | None, *, higher: bool, both: bool
) -> Comparison:
    """`within` for two rows, with a test over test items as in `compare`."""
    ours, theirs, in_pairs = _runs_of(results, row, other, key, higher=higher)
    first, second = ([value for _, value in side] for side in (ours, theirs))
    found = within(row, other, first, second, key.split(".")[1], margin, in_pairs=in_pairs, higher=higher, both=both)
    if margin is None or found.p is None or not all(map(math.isfinite, second)):
        return found
    size = margin.of(statistics.fmean(second))
    return _over_items(found, ours, theirs, key, higher=higher, margin=size, both=both)


def within(
    row: str,
    other: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    name: str,
    margin: Margin | None,
    *,
    in_pairs: bool = False,
    higher: bool = False,
    both: bool = False,
) -> Comparison:
    """`no_worse`, or `equivalent` if `both`, for two lists with one number for each seed.

    >>> ours, theirs = [21.0, 20.6, 20.8], [20.9, 20.7, 20.9]
    >>> found = within("linformer", "standard", ours, theirs, "bleu", Margin(0.5), in_pairs=True, higher=True)
    >>> print(found.text)
    bleu 20.8 (linformer) against 20.8 (standard), margin 0.5, clear over 3 seeds (p = 0.0099)
    """
    ours, theirs = signed(ours, higher=higher), signed(theirs, higher=higher)
    gain, said = described(row, other, ours, theirs, name, higher=higher)
    if margin is None or min(len(ours), len(theirs)) < 2:
        why = [NO_MARGIN] if margin is None else ["one seed: nothing is clear"] if ours and theirs else []
        return Comparison(row, other, gain, ", ".join([said, *why]))
    diverged = -math.inf in (*ours, *theirs)
    size = 0.0 if diverged else margin.of(statistics.fmean(theirs))
    from attention_research.studies.differences import p_above

    test = lambda first, second, less: p_above(first, second, in_pairs=in_pairs, margin=less) or 0.0
    p, p_reversed = test(ours, theirs, size), test(theirs, ours, -size)
    if both:
        p_reversed = min(1.0, 2 * min(p_reversed, test(ours, theirs, -size)))
        p = 1.0 if diverged else max(p, test(theirs, ours, size))
    return Comparison(row, other, gain, f"{said}, margin {margin}", p, p_reversed, min(len(ours), len(theirs)))


def together(cases: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """The comparisons of one claim, with p-values corrected by Holm's method in each direction."""
    there = {name: case for name, case in cases.items() if case.p is not None and case.p_reversed is not None}
    from attention_research.studies.significance import holm

    p, p_reversed = (holm({name: getattr(case, one) for name, case in there.items()}) for one in ("p", "p_reversed"))
    changed = {name: dataclasses.replace(there[name], p=p[name], p_reversed=p_reversed[name]) for name in there}
    return {name: changed.get(name, case) for name, case in cases.items()}


def _runs_of(results: Results, row: str, other: str, key: str, *, higher: bool) -> tuple[list[_Run], list[_Run], bool]:
    """The numbers of both rows with their trials, and whether they are paired. A diverged run has the worst number."""
    stage = key.split(".")[0]
    worst = -math.inf if higher else math.inf
    ours, theirs = (_by_seed(results, one, key, worst) for one in (row, other))
    places = [place for place in ours if place in theirs]
    in_pairs = len(places) > 1 and all(same_batches(ours[p][0].trial, theirs[p][0].trial, stage) for p in places)
    if in_pairs:
        ours, theirs = ({place: side[place] for place in places} for side in (ours, theirs))
    return [*ours.values()], [*theirs.values()], in_pairs


def _by_seed(results: Results, row: str, key: str, worst: float) -> dict[Any, tuple[Entry, float]]:
    """(seed, point) -> the entry of the trial and its number."""
    stage, name = key.split(".", 1)
    found = {}
    for entry in results.of(row):
        if not entry.result:
            continue
        numbers = entry.result["stages"].get(stage, {})
        value = numbers.get(name)
        if value is None and (entry.result["diverged"] or numbers.get("diverged")):
            value = worst
        if value is not None:
            found[entry.trial.seed, entry.trial.point] = entry, value
    return found


def signed(values: Sequence[float], *, higher: bool) -> list[float]:
    sign = 1.0 if higher else -1.0
    return [-math.inf if math.isnan(value) else sign * value for value in values]


def described(
    better: str, worse: str, ours: list[float], theirs: list[float], name: str, *, higher: bool
) -> tuple[float | None, str]:
    """The gain, and a description of both means; the gain is None if a side has no numbers."""
    if not ours or not theirs:
        missing = " and ".join(row for row, values in ((better, ours), (worse, theirs)) if row and not values)
        return None, f"{name} of {missing} not measured"
    first, second = statistics.fmean(ours), statistics.fmean(theirs)
    means = [f"{mean if higher else 0.0 - mean:.3g}" if math.isfinite(mean) else "diverged" for mean in (first, second)]
    than = f" ({worse})" if worse else ""
    return first - second if first != second else 0.0, f"{name} {means[0]} ({better}) against {means[1]}{than}"


def _spelled(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.0001 else "p < 0.0001"
