"""The verdicts of `press2022/extrapolation`."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict

#: A scheme carries a model to a length where perplexity is at most this multiple of that at the training length.
CARRIED = 1.05
#: It fails there where it is above this one.
LOST = 1.2


def ratios(results: Results, row: str) -> dict[int, float]:
    """Multiple of the training length -> mean ratio of perplexities."""
    factors = results.study.scale(results.scale).settings.get("factors", ())
    found = {factor: results.values(row, f"measure.ratio_{factor}") for factor in factors if factor != 1}
    return {factor: statistics.fmean(values) for factor, values in found.items() if values}


def _said(results: Results) -> str:
    return "; ".join(
        f"{row.name}: " + ", ".join(f"{ratio:.2f} at {factor}x" for factor, ratio in ratios(results, row.id).items())
        for row in results.rows
        if ratios(results, row.id)
    )


def carries(results: Results) -> Verdict:
    """Which schemes carry a model to every longer length."""
    measured = [row for row in results.rows if ratios(results, row.id)]
    good = [row.name for row in measured if max(ratios(results, row.id).values()) <= CARRIED]
    if not measured:
        return Verdict(UNTESTED, "no scheme is measured")
    if not good:
        return Verdict(FAILED, _said(results))
    if len(good) == len(measured):
        return Verdict(HELD, _said(results))
    return Verdict(CONDITION, f"held for {', '.join(good)}; {_said(results)}")


def learned_cannot(results: Results) -> Verdict:
    """Rows of the table that no training reached, and the line for a row beyond it."""
    found = ratios(results, "learned")
    if not found:
        return Verdict(UNTESTED, "learned positions are not measured")
    said = ", ".join(f"{ratio:.2f} at {factor}x" for factor, ratio in found.items())
    said = f"perplexity with untrained rows, of that at the training length: {said}; {beyond_the_table()}"
    return Verdict(HELD if max(found.values()) > LOST else FAILED, said)


def beyond_the_table() -> str:
    """What the layer says of a row longer than its table."""
    import jax.numpy as jnp
    from flax import nnx

    from attention_research.layers.positions.learned import LearnedPositions

    layer = LearnedPositions(width=2, max_length=4, rngs=nnx.Rngs(0))
    try:
        layer(jnp.zeros((2, 5, 2)), jnp.arange(5)[None])
    except ValueError as error:
        return f"beyond the table: {error}"
    return "beyond the table: no error"


def sinusoid_fails(results: Results) -> Verdict:
    """Sinusoids lose at the longest length, and more than each scheme that has to do with distances."""
    found = {row: ratios(results, row) for row in ("sinusoidal", "alibi", "t5", "rotary", "none")}
    if not found["sinusoidal"] or not any(found[row] for row in ("alibi", "t5")):
        return Verdict(UNTESTED, "sinusoids or their rivals are not measured")
    last = {row: list(values.values())[-1] for row, values in found.items() if values}
    lost, rivals = last.pop("sinusoidal"), [row for row in last]
    worse = [row for row in rivals if last[row] < lost]
    if lost <= LOST:
        return Verdict(FAILED, _said(results))
    if len(worse) == len(rivals):
        return Verdict(HELD, _said(results))
    return Verdict(CONDITION, f"loses, and more than {', '.join(worse) or 'none of the others'}; {_said(results)}")


VERDICTS = {
    "position-longer-sentences": carries,
    "learned-positions-no-extrapolation": learned_cannot,
    "sinusoid-extrapolation-fails": sinusoid_fails,
}
