"""The verdicts of `lectures/scaling`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict

#: The tolerance for a fitted power, and for a variance that should be 1.
NEAR = 0.1
#: The Jacobian of a saturated softmax has at most this share of the norm of the scaled one.
LITTLE = 0.5
#: The tolerance for differences between weights in float32 and in float64.
EXACT = 1e-5


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.2g}" for value in values)


def variance(results: Results) -> Verdict:
    """The logit variance grows with the width to the power 1 for dot products and 0 for scaled dot products."""
    powers = {row: results.mean(f"random_{row}", "measure.variance_power") for row in ("dot", "scaled_dot", "additive")}
    if powers["dot"] is None or powers["scaled_dot"] is None:
        return Verdict(UNTESTED, "a score is not measured")
    said = "; ".join(f"{row}: H^{power:.2f}" for row, power in powers.items() if power is not None)
    good = abs(powers["dot"] - 1) <= NEAR and abs(powers["scaled_dot"]) <= NEAR
    return Verdict(HELD if good else FAILED, f"logit variance, {said}")


def _by_width(results: Results, name: str, *, falls: bool) -> tuple[bool, bool, str] | None:
    """Returns (whether the unscaled value changes with the width, whether the scaled value stays within NEAR, text)."""
    dot, scaled = (results.mean_list(f"random_{row}", f"measure.{name}") for row in ("dot", "scaled_dot"))
    if not dot or not scaled:
        return None
    steps = zip(dot, dot[1:], strict=False)
    moves = all((later < before) if falls else (later > before) for before, later in steps)
    widths = ", ".join(map(str, results.study.scale(results.scale).settings.get("random_widths", ())))
    said = f"by width ({widths}): dot product {_numbers(dot)}; scaled {_numbers(scaled)}"
    return moves, max(scaled) - min(scaled) <= NEAR, said


def entropy(results: Results) -> Verdict:
    """Without scaling, entropy decreases and the largest weight grows with every width; with scaling both stay
    constant.

    The text also gives the values of trained models.
    """
    found = [_by_width(results, name, falls=name == "entropys") for name in ("entropys", "largests")]
    if None in found:
        return Verdict(UNTESTED, "a score is not measured")
    said = [f"{name} {one[2]}" for name, one in zip(("entropy / log S", "largest weight"), found, strict=True)]
    for row in ("transformer_scaled_256", "transformer_unscaled_256"):
        before, after = (results.mean(row, f"measure.{name}") for name in ("start_entropy", "entropy"))
        if before is not None and after is not None:
            said.append(f"{row}: entropy {before:.2f} before training, {after:.2f} after")
    return Verdict(HELD if all(moves and stays for moves, stays, _ in found) else FAILED, "; ".join(said))


def gradient(results: Results) -> Verdict:
    """Without scaling, the norm of the Jacobian decreases with the width, to less than half of that with scaling.

    The text also gives the values by factor and those of trained models.
    """
    dot, scaled = (results.mean_list(f"random_{row}", "measure.jacobians") for row in ("dot", "scaled_dot"))
    factors = results.mean_list("random_scaled_dot", "measure.jacobian_by_factor")
    if not dot or not scaled or not factors:
        return Verdict(UNTESTED, "a score is not measured")
    said = f"norm of the Jacobian by width: dot product {_numbers(dot)}; scaled {_numbers(scaled)}"
    said += f"; by a factor on logits of standard deviation 1: {_numbers(factors)}"
    for row in ("transformer_scaled_256", "transformer_unscaled_256"):
        before, after = (results.mean(row, f"measure.{name}") for name in ("start_jacobian", "jacobian"))
        if before is not None and after is not None:
            said += f"; {row}: {before:.2g} before training, {after:.2g} after"
    peak = dot.index(max(dot))
    falls = all(later < before for before, later in zip(dot[peak:], dot[peak + 1 :], strict=False))
    if not falls or dot[-1] > LITTLE * scaled[-1]:
        return Verdict(FAILED, said)
    if peak == 0:
        return Verdict(HELD, said)
    width = results.study.scale(results.scale).settings["random_widths"][peak]
    return Verdict(
        CONDITION, f"held from width {width} on; at smaller widths a sharper softmax has a larger Jacobian; {said}"
    )


def head_width(results: Results) -> Verdict:
    """The default scale of the kernel uses the width of the head, and gives every head a logit variance of one."""
    agreement, other = (results.mean(f"heads_{divisor}", "measure.agreement") for divisor in ("head", "model"))
    variances = results.mean_list("heads_head", "measure.variances")
    if agreement is None or not variances:
        return Verdict(UNTESTED, "heads are not measured")
    said = f"weights differ by {agreement:.0e} from the formula with the width of the head"
    said += "" if other is None else f", by {other:.2g} from that with the width of the model"
    said += f"; variance by heads: {_numbers(variances)}"
    by_model = results.mean_list("heads_model", "measure.variances")
    said += f"; divided by the root of the width of the model: {_numbers(by_model)}" if by_model else ""
    good = agreement < EXACT and all(abs(value - 1) <= NEAR for value in variances)
    return Verdict(HELD if good else FAILED, said)


VERDICTS = {
    "logit-variance-grows": variance,
    "softmax-entropy-falls": entropy,
    "softmax-gradient-shrinks": gradient,
    "scale-uses-head-width": head_width,
}
