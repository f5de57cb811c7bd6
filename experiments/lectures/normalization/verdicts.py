"""The verdicts of `lectures/normalization` on the formula, on batch norm and on training."""

from __future__ import annotations

import dataclasses
import math
import statistics

from attention_research.studies.columns import brief
from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.results import Results, finite
from attention_research.studies.verdicts import (
    UNTESTED,
    Case,
    Comparison,
    Verdict,
    between,
    compare,
    conclude,
    decide,
    margin_of,
    no_worse,
    together,
)

KEY = "evaluate.perplexity"
#: The tolerances for means that should be 0, for standard deviations that should be 1 (at the smallest scale epsilon
#: changes them a little), and for outputs that should agree.
ZERO, ONE, SAME = 1e-4, 1e-3, 1e-4
#: The target loss is this many nats per token below the loss of the unigram model. For characters, it is below the loss
#: of a bigram model.
BELOW = 1.0
#: An increase of the perplexity by at most this share counts as negligible.
SLIGHT = 0.01


def mean(results: Results, row: str, name: str) -> float | None:
    """The mean over seeds, or None if nothing is measured."""
    values = results.values(row, f"measure.{name}")
    return statistics.fmean(values) if values else None


def _numbers(values: list[float]) -> str:
    return ", ".join(brief(value, 3) for value in values)


def formula(results: Results) -> Verdict:
    """The formula gives mean 0 and standard deviation 1 at every scale and equals the package's layer norm; the
    formulas with a mistake do not."""
    cases = {}
    for slip in ("right", "sum", "root", "both"):
        lists = results.values(f"formula_{slip}", "measure.deviations")
        name = "the formula is right" if slip == "right" else f"the mistake `{slip}` changes the output"
        if not lists:
            cases[name] = Case(UNMEASURED)
            continue
        means = results.values(f"formula_{slip}", "measure.means")
        off = max(abs(value - 1) for one in lists for value in one), max(max(one) for one in means)
        agrees = max(results.values(f"formula_{slip}", "measure.difference"))
        equal = off[0] < ONE and off[1] < ZERO and agrees < SAME
        cases[name] = Case.ruled(
            equal == (slip == "right"),
            f"standard deviations {_numbers(list(lists[0]))}, largest mean {brief(off[1])}, difference from the "
            f"package's layer norm {agrees:.2g}",
        )
    return decide(cases)


def against_batch(results: Results) -> Verdict:
    """When the other samples of a batch change, a sample's output stays exactly the same with layer norm and changes
    with batch norm. The text also gives the error by batch size."""
    layer, batch = (mean(results, f"batch_{norm}", "change") for norm in ("layer_norm", "batch_norm"))
    if layer is None or batch is None:
        return Verdict(UNTESTED, "a norm is not measured")
    changes = [statistics.fmean(at) for at in
               zip(*results.values("batch_batch_norm", "measure.changes"), strict=True)]  # fmt: skip
    along = {norm: [mean(results, f"batch_{norm}", name) for name in ("across_features", "across_samples")]
             for norm in ("layer_norm", "batch_norm")}  # fmt: skip
    largest = lambda norm: "largest mean over features {}, over samples {}".format(*map(brief, along[norm]))
    cases = {
        "layer norm: other samples change nothing": Case.ruled(layer == 0, f"relative change {layer:.2g}"),
        "batch norm: other samples change the output": Case.ruled(
            min(changes) > SLIGHT, f"relative change {batch:.2g}, by batch size {_numbers(changes)}"
        ),
        "layer norm: mean 0 over features only": Case.ruled(
            along["layer_norm"][0] < ZERO < along["layer_norm"][1], largest("layer_norm")
        ),
        "batch norm: mean 0 over samples only": Case.ruled(
            along["batch_norm"][1] < ZERO < along["batch_norm"][0], largest("batch_norm")
        ),
    }
    return decide(cases, *by_batch_size(results))


def by_batch_size(results: Results) -> list[str]:
    """Describes the error of a small network by batch size, with either norm."""
    said = []
    for norm in ("layer_norm", "batch_norm"):
        losses = results.mean_list(f"loss_{norm}", "measure.losses")
        said += [f"error by batch size with {norm}: {_numbers(losses)}"] if losses else []
    return said or ["not tested: loss by batch size"]


def set_loss(results: Results) -> float | None:
    """The target loss: `BELOW` nats below the loss of the unigram model on the test text."""
    floors = results.values("layer_norm", "evaluate.unigram_perplexity")
    return math.log(floors[0]) - BELOW if floors else None


def steps_to(results: Results, row: str, loss: float) -> list[float]:
    """For each seed, the first logged step whose training loss is at most `loss`, or infinity if there is none."""
    found = []
    for entry in results.of(row):
        result = entry.result or {}
        curve = result.get("curves", {}).get("train", [])
        if curve or result.get("diverged"):
            found.append(next((float(step) for step, value in curve if finite(value) and value <= loss), math.inf))
    return found


def sooner(results: Results, better: str, worse: str) -> Comparison:
    """Compares the steps to the target loss. A run that never reaches it counts as diverged."""
    loss = set_loss(results)
    ours, theirs = ([] if loss is None else steps_to(results, row, loss) for row in (better, worse))
    if min(len(ours), len(theirs)) < 2:
        return Comparison(better, worse, None, f"steps of {better} and {worse} not measured for two seeds")
    words = [_steps(values) for values in (ours, theirs)]
    said = f"steps to a loss of {loss:.2f}: {words[0]} ({better}) against {words[1]} ({worse})"
    return dataclasses.replace(between(better, worse, ours, theirs, "steps", higher=False), said=said)


def _steps(values: list[float]) -> str:
    there = [value for value in values if math.isfinite(value)]
    if len(there) < len(values):
        return f"{len(there)} of {len(values)} seeds" if there else "never"
    return f"{statistics.fmean(there):.0f}"


def faster(results: Results) -> Verdict:
    """Layer norm needs fewer steps to the target loss than no norm, at each learning rate."""
    cases = {f"rate {name or 'of the config'}": sooner(results, f"layer_norm{suffix}", f"none{suffix}")
             for name, suffix in (("0.001", "_low"), ("", ""), ("0.01", "_high"))}  # fmt: skip
    found, said = conclude(cases), []
    for row in ("layer_norm_low", "layer_norm", "layer_norm_high", "none_low", "none", "none_high"):
        values = results.values(row, KEY)
        said += [f"{row}: perplexity {statistics.fmean(values):.4g}"] if values else []
    return found.beside(*said)


def gradients(results: Results) -> Verdict:
    """Layer norm has a clear gain over no norm, its statistics matter to the gradient, and less than half of the gain
    remains when they are detached."""
    comparisons = together({row: compare(results, "layer_norm", row, KEY) for row in ("none", "detached")})
    gain, lost = comparisons.values()
    said = []
    for row in ("none", "layer_norm", "detached", "post", "post_no_warmup"):
        at = results.values(row, "measure.start_gradients")
        if at:
            norms = [statistics.fmean(layer) for layer in zip(*at, strict=True)]
            perplexity = statistics.fmean(results.values(row, KEY) or (math.nan,))
            said.append(f"{row}: perplexity {perplexity:.4g}, gradients by layer before training {_numbers(norms)}")
    half = Case(UNMEASURED)
    if gain.clear is not None and lost.clear is not None:
        if not math.isfinite(lost.gain):
            half = Case.ruled(True, "with detached statistics training diverges")
        elif gain.clear:
            kept = 1 - lost.gain / gain.gain  # the whole gain if the model without norm diverges
            half = Case.ruled(kept < 0.5, f"{kept:.0%} of the gain remains with detached statistics")
    names = ("gain over no norm", "loss with detached statistics")
    compared = {name: Case.compared(case) for name, case in zip(names, (gain, lost), strict=True)}
    return decide({**compared, "less than half of the gain remains": half}, *said)


def optional(results: Results) -> Verdict:
    """Without gain and bias the perplexity increases by less than the margin of the claim."""
    margin = margin_of(results, "layernorm-gain-bias-optional")
    return conclude({"perplexity": no_worse(results, "simple", "layer_norm", KEY, margin)})


VERDICTS = {
    "layernorm-formula": formula,
    "layernorm-trains-faster": faster,
    "layernorm-normalises-gradients": gradients,
    "layernorm-gain-bias-optional": optional,
    "layernorm-against-batchnorm": against_batch,
}
