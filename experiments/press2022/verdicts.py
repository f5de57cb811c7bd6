"""The verdicts of `press2022/extrapolation`."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Verdict, against, compare, conclude

#: A model extrapolates to a length if its perplexity is at most this multiple of that at the training length.
CARRIED = 1.05
#: It fails at a length if its perplexity is above this multiple.
LOST = 1.2
#: The schemes with which sinusoids are compared.
RIVALS = ("alibi", "t5", "rotary", "none")


def ratios(results: Results, row: str) -> dict[int, float]:
    """Maps each multiple of the training length to the mean ratio of perplexities."""
    factors = results.settings.get("factors", ())
    found = {factor: results.values(row, f"measure.ratio_{factor}") for factor in factors if factor != 1}
    return {factor: statistics.fmean(values) for factor, values in found.items() if values}


def _said(results: Results) -> str:
    return "; ".join(
        f"{row.name}: " + ", ".join(f"{ratio:.2f} at {factor}x" for factor, ratio in ratios(results, row.id).items())
        for row in results.rows
        if ratios(results, row.id)
    )


def carries(results: Results) -> Verdict:
    """With every scheme the model extrapolates to every longer length."""
    return conclude({
        f"{row.name} at {factor}x": against(results, row.id, f"measure.ratio_{factor}", CARRIED, higher=False)
        for row in results.study.rows_at(results.scale)
        if row.id != "alibi_closed"  # the claim is about positions
        for factor in results.settings.get("factors", ())
        if factor != 1
    })  # fmt: skip


def learned_cannot(results: Results) -> Verdict:
    """Learned positions fail at positions that training did not reach. The text also gives the error for a row that is
    longer than the table."""
    found = ratios(results, "learned")
    if not found:
        return Verdict(UNTESTED, "learned positions are not measured")
    said = ", ".join(f"{ratio:.2f} at {factor}x" for factor, ratio in found.items())
    said = f"perplexity with untrained positions / at the training length: {said}"
    case = against(results, "learned", f"measure.ratio_{max(found)}", LOST)
    return conclude({f"at {max(found)}x": case}).beside(said, beyond_the_table())


def beyond_the_table() -> str:
    """Returns the error of the layer for a row that is longer than its table."""
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
    """Sinusoids fail at the longest length. The text also compares them with other schemes and with none."""
    found = ratios(results, "sinusoidal")
    if not found:
        return Verdict(UNTESTED, "sinusoids are not measured")
    key = f"measure.ratio_{max(found)}"
    rivals = (f"{row} against sinusoidal: {compare(results, row, 'sinusoidal', key).text}" for row in RIVALS)
    cases = {"sinusoids lose": against(results, "sinusoidal", key, LOST)}
    return conclude(cases).beside(*rivals, _said(results))


VERDICTS = {
    "position-longer-sentences": carries,
    "learned-positions-no-extrapolation": learned_cannot,
    "sinusoid-extrapolation-fails": sinusoid_fails,
}
