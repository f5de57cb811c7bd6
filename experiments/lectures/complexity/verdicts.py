"""The verdicts of `lectures/complexity`."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, decide

#: The largest accepted difference between a fitted power and the expected power.
NEAR = 0.05
#: A crossover counts as equal to the width if it is shorter by at most this share of the width. Layers do more than
#: matrix products, which shifts the crossover a little.
SHORT = 0.01
#: The bounds of a trivial and of a dominant share of a block's operations.
TRIVIAL, HURTS = 0.05, 0.5


def _near(powers: Mapping[str, float | None], wanted: Sequence[float]) -> dict[str, Case]:
    """For each power of a length or width, whether it is near the wanted one."""
    return {
        name: Case(UNMEASURED)
        if power is None
        else Case.ruled(
            abs(power - want) <= NEAR, f"{power:.2f}, not {want}" if abs(power - want) > NEAR else f"{power:.2f}"
        )
        for (name, power), want in zip(powers.items(), wanted, strict=True)
    }


def sequential(results: Results) -> Verdict:
    """The longest chains of recurrent layers grow as T, forward and backward; those of attention do not grow."""
    powers = {
        f"{row} {way}": results.mean(row, f"measure.{name}")
        for row in ("rnn", "lstm", "attention_core")
        for way, name in (("forward", "chain_power"), ("backward", "chain_backward_power"))
    }
    return decide(_near(powers, (1, 1, 1, 1, 0, 0)), "powers of T in chains of products")


def differentiable(results: Results) -> Verdict:
    """Gradients equal finite differences, and the longest chains do not grow with T."""
    errors = results.values("gradient", "measure.gradient_error")
    chains = {"forward": "chain_power", "backward": "chain_backward_power"}
    powers = {f"power of T, {way}": results.mean("attention", f"measure.{name}") for way, name in chains.items()}
    equal = Case.ruled(max(errors) < 1e-6, f"relative difference at most {max(errors):.0e}") if errors else None
    return decide({"gradient in float64": equal or Case(UNMEASURED), **_near(powers, (0, 0))})


def table(results: Results) -> Verdict:
    """The counted powers equal those in the literature: `n^2 d`, `n d^2`, `k n d^2`."""
    wanted = {"attention_core": (2, 1), "rnn": (1, 2), "lstm": (1, 2), "convolution": (1, 2)}
    powers = {
        f"{row}, power of {letter}": results.mean(row, f"measure.{name}")
        for row in wanted
        for letter, name in (("T", "length_power"), ("D", "width_power"))
    } | {"convolution, power of k": results.mean("convolution", "measure.reach_power")}
    return decide(_near(powers, [*(power for pair in wanted.values() for power in pair), 1]))


def cheaper_while_short(results: Results) -> Verdict:
    """Attention costs less than another layer as long as the length is below the width.

    Compared are counted multiply-adds, without and with projections, and times.
    """
    widths = results.settings.get("widths", ())
    cases = {}
    for row, name in (("attention_core", "without projections"), ("attention", "with projections")):
        counted = results.values(row, "measure.crossovers")
        if not counted:
            cases[f"{name}, counted"] = Case(UNMEASURED)
        for found in counted[:1]:
            for other, lengths in found.items():
                good = all(
                    length is None or length >= (1 - SHORT) * width
                    for length, width in zip(lengths, widths, strict=True)
                )
                cases[f"{name} against {other}, counted"] = Case.ruled(good, _at(widths, lengths))
        for other in ("rnn", "lstm", "convolution"):
            if lengths := timed_crossovers(results, row, other):
                good = all(length >= width for length, width in zip(lengths, widths, strict=True))
                cases[f"{name} against {other}, timed"] = Case.ruled(good, _at(widths, lengths))
            else:
                cases[f"{name} against {other}, timed"] = Case(UNMEASURED)
    return decide(cases, *(["the length from which attention costs more, by width"] if cases else []))


def _at(widths: Sequence[int], lengths: Sequence[float | None]) -> str:
    spell = lambda length: "never" if length is None or length == math.inf else f"{length:,.0f}"
    return ", ".join(f"T = {spell(t)} at D = {d}" for d, t in zip(widths, lengths, strict=True))


def timed_crossovers(results: Results, row: str, other: str) -> list[float]:
    """For each width, the length from which `row` is slower than `other`, by linear interpolation of logarithms.

    It is 0 if `row` is always slower, and infinity if it never is. Times are means over seeds.
    """
    lengths = results.settings.get("lengths", ())
    ours, theirs = (results.values(id, "measure.times") for id in (row, other))
    if not ours or not theirs:
        return []
    found = []
    for number in range(len(ours[0])):
        mean = lambda runs, number=number: [
            statistics.fmean(at) for at in zip(*(run[number] for run in runs), strict=True)
        ]
        found.append(_crossing(lengths, mean(ours), mean(theirs)))
    return found


def _crossing(lengths: Sequence[int], ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The length after which the ratio of the two times stays above 1.

    >>> round(_crossing([1, 4], [1, 8], [2, 4]), 6)
    2.0
    """
    ratios = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    if ratios[-1] <= 0:
        return math.inf
    below = [number for number, ratio in enumerate(ratios) if ratio <= 0]
    if not below:
        return 0.0
    low = below[-1]
    share = -ratios[low] / (ratios[low + 1] - ratios[low])
    return math.exp(math.log(lengths[low]) + share * math.log(lengths[low + 1] / lengths[low]))


def quadratic(results: Results) -> Verdict:
    """The counted powers of T are 2 for attention and 1 for the LSTM. The text also gives the powers of the times."""
    rows = {"attention_core": "attention's products", "attention": "attention", "lstm": "LSTM"}
    counted = {rows[row]: results.mean(row, "measure.length_power") for row in ("attention_core", "lstm")}
    timed = {name: results.mean(row, "measure.time_length_power") for row, name in rows.items()}
    said = ", ".join(f"{name} {power:.2f}" for name, power in timed.items() if power is not None)
    return decide(_near(counted, (2, 1)), f"powers of T of the times: {said or 'not measured'}")


def three_lengths(results: Results) -> Verdict:
    """Scores and weighted sums are a trivial share of a block at length 30 and more than half of it at 10,000."""
    shares = {length: results.mean(f"length_{length}", "measure.scores") for length in (30, 512, 10_000)}
    if None in shares.values():
        return Verdict(UNTESTED, "a length is not measured")
    right = {30: shares[30] < TRIVIAL, 512: shares[30] < shares[512] < HURTS, 10_000: HURTS < shares[10_000]}
    cases = {}
    for length, share in shares.items():
        at = lambda name, length=length: results.mean(f"length_{length}", f"measure.{name}")
        cases[f"T = {length:,}"] = Case.ruled(
            right[length],
            f"{at('block_operations') / 1e9:,.1f} forward GFLOPs ({100 * share:.1f} % of them scores and sums), "
            f"{at('score_bytes') / 1e6:,.1f} MB of scores, {at('milliseconds'):,.0f} ms",
        )
    return decide(cases)


def memory(results: Results) -> Verdict:
    """The bytes of the compiled gradient grow as T^2 for attention, and as T for the LSTM.

    Attention is measured with all scores in memory and blockwise.
    """
    lengths = results.settings.get("lengths", ())
    names = {"attention_dense": "all scores in memory", "attention": "blockwise", "lstm": "LSTM"}
    found = {name: runs[0] for row, name in names.items() if (runs := results.values(row, "measure.bytes"))}
    if len(found) < len(names):
        return Verdict(UNTESTED, "a layer is not measured")
    step = lengths[-1] / lengths[-2]
    cases = {}
    for name, sizes in found.items():
        last = math.log(sizes[-1] / sizes[-2], step)
        right = last < 1.2 if name == "LSTM" else last > 1.5 and sizes[-1] > found["LSTM"][-1]
        grown = ", ".join(f"{size / 1e6:,.1f} MB at T = {n:,}" for n, size in zip(lengths, sizes, strict=True))
        cases[name] = Case.ruled(right, f"{grown}; power of T over the last step {last:.2f}")
    return decide(cases)


def outside(results: Results) -> Verdict:
    """The share of scores and sums decreases from each published size to the next wider one."""
    rows = [row for row in results.rows if row.id.startswith("gpt")]
    cases = {}
    for narrow, wide in itertools.pairwise(sorted(rows, key=lambda row: row.settings["width"])):
        before, after = (results.mean(row.id, "measure.scores") for row in (narrow, wide))
        cases[f"{narrow.name} to {wide.name}"] = (
            Case(UNMEASURED)
            if before is None or after is None
            else Case.ruled(after < before, f"{100 * before:.1f} % to {100 * after:.1f} %")
        )
    return decide(cases, *(["share of scores and weighted sums at one length"] if cases else []))


VERDICTS = {
    "rnn-inherently-sequential": sequential,
    "transformer-differentiable-parallel": differentiable,
    "complexity-table": table,
    "attention-is-cheap": cheaper_while_short,
    "quadratic-in-length": quadratic,
    "three-length-cases": three_lengths,
    "quadratic-memory": memory,
    "share-outside-attention": outside,
}
