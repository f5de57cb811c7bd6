"""The verdicts of `lectures/scaling`."""

from __future__ import annotations

import itertools

from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, decide

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
    power = lambda row: results.mean(f"random_{row}", "measure.variance_power")
    cases = {}
    for row, wanted in (("dot", 1), ("scaled_dot", 0)):
        found = power(row)
        near = Case(UNMEASURED) if found is None else Case.ruled(abs(found - wanted) <= NEAR, f"H^{found:.2f}")
        cases[f"logit variance, {row}"] = near
    other = power("additive")
    return decide(cases, *([] if other is None else [f"additive: H^{other:.2f}"]))


def _by_width(results: Results, name: str, title: str, *, falls: bool) -> dict[str, Case]:
    """Whether the unscaled value changes with every width, and whether the scaled value stays within NEAR."""
    dot, scaled = (results.mean_list(f"random_{row}", f"measure.{name}") for row in ("dot", "scaled_dot"))
    if not dot or not scaled:
        return {title: Case(UNMEASURED)}
    moves = all((later < before) if falls else (later > before) for before, later in itertools.pairwise(dot))
    return {
        f"{title} {'decreases' if falls else 'grows'} without scaling": Case.ruled(moves, _numbers(dot)),
        f"{title} stays constant with scaling": Case.ruled(max(scaled) - min(scaled) <= NEAR, _numbers(scaled)),
    }


def entropy(results: Results) -> Verdict:
    """Without scaling, entropy decreases and the largest weight grows with every width; with scaling both stay
    constant.

    The text also gives the values of trained models.
    """
    cases = {
        **_by_width(results, "entropys", "entropy / log S", falls=True),
        **_by_width(results, "largests", "largest weight", falls=False),
    }
    widths = ", ".join(map(str, results.settings.get("random_widths", ())))
    return decide(cases, f"values at widths {widths}", *_trained(results, "entropy", "entropy"))


def _trained(results: Results, name: str, title: str) -> list[str]:
    """A value of the widest trained Transformers, before and after training."""
    said = []
    for row in ("transformer_scaled_256", "transformer_unscaled_256"):
        before, after = (results.mean(row, f"measure.{one}") for one in (f"start_{name}", name))
        if before is not None and after is not None:
            said.append(f"{row}: {title} {before:.2g} before training, {after:.2g} after")
    return said


def gradient(results: Results) -> Verdict:
    """Without scaling, the norm of the Jacobian decreases with every width, to less than half of that with scaling.

    The text also gives the values by factor and those of trained models.
    """
    dot, scaled = (results.mean_list(f"random_{row}", "measure.jacobians") for row in ("dot", "scaled_dot"))
    factors = results.mean_list("random_scaled_dot", "measure.jacobian_by_factor")
    if not dot or not scaled or not factors:
        return Verdict(UNTESTED, "a score is not measured")
    widths = ", ".join(map(str, results.settings.get("random_widths", ())))
    falls = all(later < before for before, later in itertools.pairwise(dot))
    cases = {
        "decreases with every width without scaling": Case.ruled(falls, _numbers(dot)),
        "less than half of that with scaling at the largest width": Case.ruled(
            dot[-1] <= LITTLE * scaled[-1], f"scaled: {_numbers(scaled)}"
        ),
    }
    said = [f"norm of the Jacobian at widths {widths}"]
    said.append(f"by a factor on logits of standard deviation 1: {_numbers(factors)}")
    return decide(cases, *said, *_trained(results, "jacobian", "norm of the Jacobian"))


def head_width(results: Results) -> Verdict:
    """The default scale of the kernel uses the width of the head, and gives every head a logit variance of one."""
    agreement, other = (results.mean(f"heads_{divisor}", "measure.agreement") for divisor in ("head", "model"))
    variances = results.mean_list("heads_head", "measure.variances")
    if agreement is None or not variances:
        return Verdict(UNTESTED, "heads are not measured")
    by_model = results.mean_list("heads_model", "measure.variances")
    cases = {
        "weights as with the width of the head": Case.ruled(
            agreement < EXACT,
            f"differ by {agreement:.0e}" + ("" if other is None else f", by {other:.2g} from the width of the model"),
        ),
        "variance of one by head": Case.ruled(all(abs(value - 1) <= NEAR for value in variances), _numbers(variances)),
    }
    said = [f"variances divided by the root of the width of the model: {_numbers(by_model)}"] if by_model else []
    return decide(cases, *said)


VERDICTS = {
    "logit-variance-grows": variance,
    "softmax-entropy-falls": entropy,
    "softmax-gradient-shrinks": gradient,
    "scale-uses-head-width": head_width,
}
