"""The verdicts of `press2022/extrapolation`."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Verdict, against, compare, conclude

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
    """Every scheme carries a model to every longer length."""
    return conclude({
        f"{row.name} at {factor}x": against(results, row.id, f"measure.ratio_{factor}", CARRIED, higher=False)
        for row in results.rows
        for factor in ratios(results, row.id)
    })  # fmt: skip


def learned_cannot(results: Results) -> Verdict:
    """Rows of the table that no training reached, and the line for a row beyond it."""
    found = ratios(results, "learned")
    if not found:
        return Verdict(UNTESTED, "learned positions are not measured")
    said = ", ".join(f"{ratio:.2f} at {factor}x" for factor, ratio in found.items())
    said = f"perplexity with untrained rows, of that at the training length: {said}"
    case = against(results, "learned", f"measure.ratio_{max(found)}", LOST)
    return conclude({f"at {max(found)}x": case}).beside(said, beyond_the_table())


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
    key = f"measure.ratio_{max(found['sinusoidal'])}"
    cases = {"sinusoids lose": against(results, "sinusoidal", key, LOST)}
    rivals = [row for row, values in found.items() if values and row != "sinusoidal"]
    cases |= {f"{row} loses less": compare(results, row, "sinusoidal", key) for row in rivals}
    return conclude(cases).beside(_said(results))


VERDICTS = {
    "position-longer-sentences": carries,
    "learned-positions-no-extrapolation": learned_cannot,
    "sinusoid-extrapolation-fails": sinusoid_fails,
}
