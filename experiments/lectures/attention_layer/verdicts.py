"""The verdicts and the figure of `lectures/attention_layer`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import Figure, canvas, caption, rows_as_points, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude, margin_of, no_worse

from ..laws.exact import exact

#: Claim -> its law in a few words.
LAWS = {
    "attention-three-steps": "scores, softmax, weighted sum",
    "weights-sum-to-one": "weights in [0, 1], of sum one",
    "fixed-size-from-any-set": "one size from 1, 7, 101 values",
    "keys-permutation-invariant": "keys are a set",
    "self-attention-equivariant": "inputs permuted, outputs permuted",
    "one-output-per-query": "one query at a time",
    "output-width-from-values": "as wide as the values",
    "self-is-general-with-own-queries": "self-attention is the general layer",
    "matrix-form-equals-loop": "matrix form is the loop",
    "basic-has-no-parameters": "softmax(X Xᵀ) X; three matrices",
    "dot-against-cosine": "one key made longer",
    "query-key-value-roles": "who listens, and what is passed on",
    "heads-concatenate-and-project": "heads alone, then joined",
    "head-width-keeps-cost": "4 D² for any number of heads",
    "block-interacts-only-by-attention": "what mixes tokens in a block",
    "cross-attention-memory": "a memory of keys and values",
}
ACCURACY, LOSS = "measure.accuracy", "measure.loss"
LADDER = ("dot_none", "dot_keys", "dot_keys_values", "dot_all")
#: Accuracies that differ by at most this much count as equally good.
AS_GOOD = 0.01


def matrix_form(results: Results) -> Verdict:
    """The verdict of the law, with how much longer the loop takes."""
    found = exact("matrix-form-equals-loop")(results)
    times = [said["times"] for said in results.values("matrix-form-equals-loop", "measure.said")]
    slower = [f"the loop takes {statistics.median(times):,.0f} times as long (64 tokens)"] if times else []
    return found.beside(*slower)


def projections(results: Results) -> Verdict:
    """Accuracy with projected keys and values is clearly above that with raw inputs.

    The text also says how accuracy changes with each projection that is added.
    """
    rungs = [compare(results, better, worse, ACCURACY, higher=True)
             for worse, better in zip(LADDER, LADDER[1:], strict=False)]  # fmt: skip
    whole = compare(results, "dot_keys_values", "dot_none", ACCURACY, higher=True)
    return conclude({"keys and values": whole}).beside(*(one.said for one in rungs))


def needs(results: Results) -> Verdict:
    """The dot product is clearly worse than the additive score on raw inputs, and not worse by the margin of the claim
    when keys and values are projected."""
    margin = margin_of(results, "dot-needs-projections")
    ladder = lambda score: f"{score}_keys_values"
    return conclude({
        "worse than additive on raw inputs": compare(results, "additive_none", "dot_none", ACCURACY, higher=True),
        "better with projections": compare(results, ladder("dot"), "dot_none", ACCURACY, higher=True),
        "as good as additive with projections": no_worse(
            results, ladder("dot"), ladder("additive"), ACCURACY, margin, higher=True
        ),
    })  # fmt: skip


def normalising(results: Results) -> Verdict:
    """With projections the dot products are not worse than the cosine, with or without a learned temperature, by more
    than the margin of the claim. The text also gives the losses without projections.

    The margin, 0.01 nats, is that of `needs` as a loss: the probability of the right item is 1 % lower.
    """
    margin, cases = margin_of(results, "no-need-to-normalise"), {}
    for dot in ("dot", "scaled_dot"):
        for cosine in ("cosine", "cosine_temperature"):
            cases[f"{dot} against {cosine}"] = no_worse(results, f"{dot}_all", f"{cosine}_all", LOSS, margin)
    raw = [f"{name} on raw inputs {mean:.2g}" for name in ("dot", "scaled_dot", "cosine", "cosine_temperature")
           if (mean := results.mean(f"{name}_none", LOSS)) is not None]  # fmt: skip
    return conclude(cases).beside(*raw)


VERDICTS = {
    **{claim: exact(claim) for claim in LAWS},
    "matrix-form-equals-loop": matrix_form,
    "key-value-projections-help": projections,
    "dot-needs-projections": needs,
    "no-need-to-normalise": normalising,
}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy of every trained row: one point for each seed and a bar at the mean."""
    rows = [row for row in results.rows if results.values(row.id, ACCURACY)]
    if not rows:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(8, 1 + 0.36 * len(rows)))
    rows_as_points(axis, {row.name: [100 * value for value in results.values(row.id, ACCURACY)] for row in rows})
    axis.axvline(100 * (results.mean(rows[0].id, "measure.chance") or 0.0), color="grey", linewidth=1)
    axis.set_xlim(0, 102)
    axis.set_xlabel("accuracy, %")
    where = folder / "ladder.png"
    save(figure, where, caption(results, "points: seeds, bars: mean, grey line: chance", rows=[row.id for row in rows]))
    said = "; ".join(f"{row.name} {100 * (results.mean(row.id, ACCURACY) or 0):.1f} %" for row in rows)
    return Figure(where, "Accuracy on the lookup task by score and projections", f"{said}.")
