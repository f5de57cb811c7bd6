"""The verdicts of `lectures/complexity`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict

#: The largest accepted difference between a fitted power and the expected power.
NEAR = 0.05
#: A crossover counts as equal to the width if it is shorter by at most this share of the width. Layers do more than
#: matrix products, which shifts the crossover a little.
SHORT = 0.01
#: The bounds of a trivial and of a dominant share of a block's operations.
TRIVIAL, HURTS = 0.05, 0.5


def _said(powers: dict[str, float | None]) -> str:
    return "; ".join(f"{name} {power:.2f}" for name, power in powers.items() if power is not None)


def _all_near(powers: dict[str, float | None], wanted: Sequence[float], said: str) -> Verdict:
    if None in powers.values():
        return Verdict(UNTESTED, "a layer is not measured")
    good = all(abs(power - want) <= NEAR for power, want in zip(powers.values(), wanted, strict=True))
    return Verdict(HELD if good else FAILED, said)


def sequential(results: Results) -> Verdict:
    """The longest chains of recurrent layers grow as T, forward and backward; those of attention do not grow."""
    powers = {
        f"{row} {way}": results.mean(row, f"measure.{name}")
        for row in ("rnn", "lstm", "attention_core")
        for way, name in (("forward", "chain_power"), ("backward", "chain_backward_power"))
    }
    return _all_near(powers, (1, 1, 1, 1, 0, 0), f"powers of T in chains of products: {_said(powers)}")


def differentiable(results: Results) -> Verdict:
    """Gradients equal finite differences, and the longest chains do not grow with T."""
    errors = results.values("gradient", "measure.gradient_error")
    powers = {way: results.mean("attention", f"measure.{name}") for way, name in
              (("forward", "chain_power"), ("backward", "chain_backward_power"))}  # fmt: skip
    if not errors:
        return Verdict(UNTESTED, "the gradient is not measured")
    said = f"largest relative difference {max(errors):.0e} in float64; powers of T in chains: {_said(powers)}"
    verdict = _all_near(powers, (0, 0), said)
    return verdict if max(errors) < 1e-6 else Verdict(FAILED, said)


def table(results: Results) -> Verdict:
    """The counted powers equal those in the literature: `n^2 d`, `n d^2`, `k n d^2`."""
    wanted = {"attention_core": (2, 1), "rnn": (1, 2), "lstm": (1, 2), "convolution": (1, 2)}
    powers = {
        f"{row} ~ {letter}^": results.mean(row, f"measure.{name}")
        for row in wanted
        for letter, name in (("T", "length_power"), ("D", "width_power"))
    } | {"convolution ~ k^": results.mean("convolution", "measure.reach_power")}
    return _all_near(powers, [*(power for pair in wanted.values() for power in pair), 1], _said(powers))


def cheaper_while_short(results: Results) -> Verdict:
    """Attention costs less than another layer as long as the length is below the width.

    Compared are counted multiply-adds, without and with projections, and times.
    """
    widths = results.study.scale(results.scale).settings.get("widths", ())
    said, held, cases = [], [], 0
    for row, name in (("attention_core", "without projections"), ("attention", "with projections")):
        for found in results.values(row, "measure.crossovers")[:1]:
            for other, lengths in found.items():
                said.append(f"counted {name} against {other}: " + _at(widths, lengths))
                cases += 1
                good = all(
                    length is None or length >= (1 - SHORT) * width
                    for length, width in zip(lengths, widths, strict=True)
                )
                held += [f"{name} against {other}, counted"] if good else []
        for other in ("rnn", "lstm", "convolution"):
            lengths = timed_crossovers(results, row, other)
            if lengths:
                said.append(f"timed {name} against {other}: " + _at(widths, lengths))
                cases += 1
                good = all(length >= width for length, width in zip(lengths, widths, strict=True))
                held += [f"{name} against {other}, timed"] if good else []
    if not cases:
        return Verdict(UNTESTED, "no crossover is measured")
    because = "; ".join(said)
    if not held:
        return Verdict(FAILED, because)
    return (
        Verdict(HELD, because) if len(held) == cases else Verdict(CONDITION, f"held for {', '.join(held)}; {because}")
    )


def _at(widths: Sequence[int], lengths: Sequence[float | None]) -> str:
    spell = lambda length: "never" if length is None or length == math.inf else f"{length:,.0f}"
    return ", ".join(f"T = {spell(t)} at D = {d}" for d, t in zip(widths, lengths, strict=True))


def timed_crossovers(results: Results, row: str, other: str) -> list[float]:
    """For each width, the length from which `row` is slower than `other`, by linear interpolation of logarithms.

    It is 0 if `row` is always slower, and infinity if it never is. Times are means over seeds.
    """
    lengths = results.study.scale(results.scale).settings.get("lengths", ())
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
    powers = {"attention's products": results.mean("attention_core", "measure.length_power"),
              "LSTM": results.mean("lstm", "measure.length_power")}  # fmt: skip
    timed = {row: results.mean(row, "measure.time_length_power") for row in ("attention_core", "attention", "lstm")}
    return _all_near(powers, (2, 1), f"counted, powers of T: {_said(powers)}; timed: {_said(timed)}")


def three_lengths(results: Results) -> Verdict:
    """Scores and weighted sums are a trivial share of a block at length 30 and more than half of it at 10,000."""
    shares = {length: results.mean(f"length_{length}", "measure.scores") for length in (30, 512, 10_000)}
    if None in shares.values():
        return Verdict(UNTESTED, "a length is not measured")
    said = []
    for length, share in shares.items():
        at = lambda name, length=length: results.mean(f"length_{length}", f"measure.{name}")
        said.append(
            f"T = {length:,}: {at('block_operations') / 1e9:,.1f} forward GFLOPs ({100 * share:.1f} % of them scores "
            f"and sums), {at('score_bytes') / 1e6:,.1f} MB of scores, {at('milliseconds'):,.0f} ms"
        )
    good = shares[30] < TRIVIAL and shares[30] < shares[512] < HURTS < shares[10_000]
    return Verdict(HELD if good else FAILED, "; ".join(said))


def memory(results: Results) -> Verdict:
    """The bytes of the compiled gradient grow as T^2 for attention that keeps all scores, and as T for the LSTM.

    If the blockwise kernel grows as T, the claim holds only for attention that keeps all scores.
    """
    lengths = results.study.scale(results.scale).settings.get("lengths", ())
    names = {"attention_dense": "all scores in memory", "attention": "blockwise", "lstm": "LSTM"}
    found = {name: results.values(row, "measure.bytes") for row, name in names.items()}
    if not all(found.values()):
        return Verdict(UNTESTED, "a layer is not measured")
    said = "; ".join(
        f"{name}: " + ", ".join(f"{size / 1e6:,.1f} MB at T = {n:,}" for n, size in zip(lengths, runs[0], strict=True))
        for name, runs in found.items()
    )
    dense, blockwise, lstm = (runs[0] for runs in found.values())
    step = lengths[-1] / lengths[-2]
    last = [math.log(sizes[-1] / sizes[-2], step) for sizes in (dense, blockwise, lstm)]
    said += "; powers of T over the last step: " + ", ".join(f"{power:.2f}" for power in last)
    if not (dense[-1] > lstm[-1] and last[0] > 1.5 and last[2] < 1.2):
        return Verdict(FAILED, said)
    return (
        Verdict(CONDITION, f"held if all scores are kept in memory; {said}") if last[1] < 1.2 else Verdict(HELD, said)
    )


def outside(results: Results) -> Verdict:
    """The share of scores and sums decreases from each published size to the next wider one."""
    rows = [row for row in results.rows if row.id.startswith("gpt") and results.values(row.id, "measure.scores")]
    if len(rows) < 2:
        return Verdict(UNTESTED, "fewer than two sizes are counted")
    by_width = sorted(rows, key=lambda row: row.settings["width"])
    shares = [results.mean(row.id, "measure.scores") for row in by_width]
    said = "; ".join(f"{row.name}: {100 * share:.1f} %" for row, share in zip(by_width, shares, strict=True))
    falls = all(later < before for before, later in zip(shares, shares[1:], strict=False))
    return Verdict(HELD if falls else FAILED, f"share of scores and weighted sums at one length; {said}")


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
