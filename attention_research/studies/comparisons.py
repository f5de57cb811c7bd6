"""Two rows compared under a key: by how much one is better, and how sure that is.

A comparison has two one-sided p-values (`differences`): that `better` is better, and the reverse. It is clear where the
first is at most `LEVEL`, reversed where the second is. Seeds are in pairs where the two trials of every seed see the
same batches. Of several comparisons that make one claim the p-values are corrected (`together`).

Where both rows' evaluations keep what their score is a sum of (`tasks.sentence_statistics`), `compare` asks two things.
The test over seeds asks whether another training would differ, a paired bootstrap over the items of the test set asks
whether another test set would. A difference is clear only if both are, so that p is the larger of the two: of a finding
that needs both, it bounds the chance of a false one, before and after the correction.

That two rows are equal, or one no worse, is shown only within a margin that was declared beforehand: few seeds leave
every difference unclear, so that "not clear" is no evidence of equality.
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

#: Where an evaluation keeps what its scores are sums of (`tasks.sentence_statistics`).
STATISTICS = "sentence_statistics"
LEVEL = 0.05
NO_MARGIN = "no margin was declared"
#: What a comparison comes to.
CLEAR, REVERSED, OPEN, UNMEASURED = "clear", "reversed", "not clear", "not measured"


class Alone(NamedTuple):
    """The p-values of a comparison over seeds and over test items, each alone and not corrected."""

    seeds: float
    items: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How much better one row is than another; `p` is None where it was not measured by two seeds. `said` are the two
    means and, where there is no p, the reason. `items` are those of the test set where p is also that of their choice;
    `alone` and `alone_reversed` are then the two that p and `p_reversed` are the larger ones of."""

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
        """None where it was not measured."""
        return None if self.outcome == UNMEASURED else self.outcome == CLEAR

    @property
    def text(self) -> str:
        """The means, and in words and with its p how clear the difference is."""
        if self.p is None or self.p_reversed is None:
            return self.said
        if not self.seeds:
            return f"{self.said}, {self.outcome}"
        turned = self.outcome == REVERSED
        p, alone = (self.p_reversed, self.alone_reversed) if turned else (self.p, self.alone)
        over, of = f"{self.seeds} seeds", ""
        if alone is not None:
            over += f" and {self.items:,} test items"
            of = f", over seeds alone {_spelled(alone.seeds)}, over items alone {_spelled(alone.items)}"
        return f"{self.said}, {self.outcome} over {over} ({_spelled(p)}{of})"


def with_reference(results: Results) -> str:
    """Every row against the scale's reference row, in words; empty where the scale has none.

    Which of two rows is the better one is read off the numbers, so that p is that of both sides, twice the smaller one.
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
    """Whether two trials train on the same batches in the same order, `stage` being "train" or a fine-tuning's name.

    So it is where both configurations give the same data, lengths, vocabulary, batch size, steps and seed of the data.
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
    """Compare two rows by id; ``gain`` is positive where ``better`` is better (lower, or higher with ``higher``).

    The row ``better`` must have learned its task (`studies.competence`); ``worse`` may have failed at it.
    """
    ours, theirs, in_pairs = _runs_of(results, better, worse, key, higher=higher)
    first, second = ([value for _, value in side] for side in (ours, theirs))
    found = between(better, worse, first, second, key.split(".")[1], in_pairs=in_pairs, higher=higher)
    return learned(results, _over_items(found, ours, theirs, key, higher=higher), better)


def _over_items(
    found: Comparison, ours: Sequence[_Run], theirs: Sequence[_Run], key: str, *, higher: bool
) -> Comparison:
    """The comparison with the choice of test items in its p, where the evaluations of all trials keep their statistics.

    What is resampled is the difference that the table shows, of the means over seeds: each resample takes the same
    items for all seeds of both rows. The trained models stay what they are: how they vary is the other test.
    """
    stage, name = key.split(".", 1)
    stored = [[entry.result["stages"].get(stage, {}).get(STATISTICS) for entry, _ in side if entry.result]
              for side in (ours, theirs)]  # fmt: skip
    if found.p is None or found.p_reversed is None or not any(map(any, stored)):
        return found
    from attention_research.studies.differences import p_over_items, resampled

    both = resampled([*stored[0], *stored[1]], name)
    if both is None:
        return dataclasses.replace(found, said=f"{found.said}, the choice of test items was not tested")
    count, sign = len(stored[0]), 1.0 if higher else -1.0
    of = lambda scores: sign * (scores[:count].mean(0) - scores[count:].mean(0))
    above, below = map(float, p_over_items(of(both.scores), of(both.resamples)))
    alone, turned = Alone(found.p, above), Alone(found.p_reversed, below)
    return dataclasses.replace(
        found, p=max(alone), p_reversed=max(turned), items=both.items, alone=alone, alone_reversed=turned
    )


def learned(results: Results, found: Comparison, *rows: str) -> Comparison:
    """The comparison; without p, and with the reason, where one of these rows has not learned its task."""
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
    """Compare two lists of numbers a seed, under the names of what they are of; -inf or nan is a run that diverged.

    Without `higher` lower numbers are better. Of numbers ``in_pairs`` the i-th of both sides belong together.
    """
    ours, theirs = signed(ours, higher=higher), signed(theirs, higher=higher)
    gain, said = described(better, worse, ours, theirs, name, higher=higher)
    seeds = min(len(ours), len(theirs))
    if seeds < 2:
        return Comparison(better, worse, gain, f"{said}, one seed: nothing is clear" if seeds else said)
    from attention_research.studies.differences import p_above  # NumPy, which planning does without

    p = p_above(ours, theirs, in_pairs=in_pairs)
    return Comparison(better, worse, gain, said, p, p_above(theirs, ours, in_pairs=in_pairs), seeds)


def against(results: Results, row: str, key: str, other: str | float = 0.0, *, higher: bool = True) -> Comparison:
    """A row's number against another one of the same runs, by its key, or against a fixed number."""
    ours = [value for _, value in _by_seed(results, row, key, -math.inf if higher else math.inf).values()]
    theirs = results.values(row, other) if isinstance(other, str) else [other] * len(ours)
    said = other.split(".")[1] if isinstance(other, str) else ""
    in_pairs = len(ours) == len(theirs)
    return learned(results, between(row, said, ours, theirs, key.split(".")[1], in_pairs=in_pairs, higher=higher), row)


def apart(results: Results, rows: Sequence[str], key: str, *, higher: bool = False) -> Comparison:
    """That some two of several rows differ: the best against the worst, p times the number of ordered pairs that could
    have been these two (Bonferroni's correction). There is no reverse of it."""
    means = {row: mean for row in rows if (mean := results.mean(row, key)) is not None}
    order = sorted(means, key=means.__getitem__, reverse=higher) or [*rows]
    found = compare(results, order[0], order[-1], key, higher=higher)
    pairs = len(order) * (len(order) - 1)
    return found if found.p is None else dataclasses.replace(found, p=min(1.0, pairs * found.p), p_reversed=1.0)


def certain(better: str, worse: str, gain: float, said: str) -> Comparison:
    """A comparison of numbers without any spread, such as counts."""
    return Comparison(better, worse, gain, said, 0.5 - 0.5 * _sign(gain), 0.5 + 0.5 * _sign(gain))


@dataclasses.dataclass(frozen=True)
class Margin:
    """How far apart two numbers may be and still count as equal: a number, or a share of the second one's size."""

    value: float
    relative: bool = False

    @staticmethod
    def parse(text: str) -> Margin | None:
        """``0.5`` or ``3%``, as claims.csv has it; None of an empty text.

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
    """That a row is worse than another by less than a margin; reversed where it is worse by more."""
    ours, theirs, in_pairs = numbers_of(results, row, other, key, higher=higher)
    found = within(row, other, ours, theirs, key.split(".")[1], margin, in_pairs=in_pairs, higher=higher)
    return learned(results, found, row)


def equivalent(
    results: Results, row: str, other: str, key: str, margin: Margin | None, *, higher: bool = False
) -> Comparison:
    """That two rows differ by less than a margin: the larger p of two one-sided tests (Schuirmann 1987); reversed where
    they differ by more."""
    ours, theirs, in_pairs = numbers_of(results, row, other, key, higher=higher)
    found = within(row, other, ours, theirs, key.split(".")[1], margin, in_pairs=in_pairs, higher=higher, both=True)
    return learned(results, found, row, other)


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
    """`no_worse`, or with `both` `equivalent`, of two lists of numbers a seed."""
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
    """The comparisons of one claim with their p-values corrected by Holm's method, in either direction."""
    there = {name: case for name, case in cases.items() if case.p is not None and case.p_reversed is not None}
    from attention_research.studies.significance import holm

    p, p_reversed = (holm({name: getattr(case, one) for name, case in there.items()}) for one in ("p", "p_reversed"))
    changed = {name: dataclasses.replace(there[name], p=p[name], p_reversed=p_reversed[name]) for name in there}
    return {name: changed.get(name, case) for name, case in cases.items()}


def numbers_of(
    results: Results, row: str, other: str, key: str, *, higher: bool
) -> tuple[list[float], list[float], bool]:
    """The numbers of both rows, a run that diverged as the worst one, and whether they are pairs."""
    ours, theirs, in_pairs = _runs_of(results, row, other, key, higher=higher)
    return [value for _, value in ours], [value for _, value in theirs], in_pairs


def _runs_of(results: Results, row: str, other: str, key: str, *, higher: bool) -> tuple[list[_Run], list[_Run], bool]:
    """`numbers_of`, each with its trial."""
    stage = key.split(".")[0]
    worst = -math.inf if higher else math.inf
    ours, theirs = (_by_seed(results, one, key, worst) for one in (row, other))
    places = [place for place in ours if place in theirs]
    in_pairs = len(places) > 1 and all(same_batches(ours[p][0].trial, theirs[p][0].trial, stage) for p in places)
    if in_pairs:
        ours, theirs = ({place: side[place] for place in places} for side in (ours, theirs))
    return [*ours.values()], [*theirs.values()], in_pairs


def _by_seed(results: Results, row: str, key: str, worst: float) -> dict[Any, tuple[Entry, float]]:
    """(seed, point) -> the trial and its number."""
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
    """The gain, and both means in words."""
    if not ours or not theirs:
        missing = " and ".join(row for row, values in ((better, ours), (worse, theirs)) if row and not values)
        return None, f"{name} of {missing} not measured"
    first, second = statistics.fmean(ours), statistics.fmean(theirs)
    means = [f"{mean if higher else 0.0 - mean:.3g}" if math.isfinite(mean) else "diverged" for mean in (first, second)]
    than = f" ({worse})" if worse else ""
    return first - second if first != second else 0.0, f"{name} {means[0]} ({better}) against {means[1]}{than}"


def _sign(value: float) -> float:
    return math.copysign(1.0, value) if value else 0.0


def _spelled(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.0001 else "p < 0.0001"
