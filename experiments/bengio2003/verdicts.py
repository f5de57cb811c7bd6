"""The verdicts of `bengio2003/table1`. Lower perplexities are better."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, against, compare, conclude, decide, together

TEST, RATIO, MIXED, VALIDATION = "measure.test", "measure.ratio", "measure.mixed_test", "measure.validation"
#: Row -> the names of the network alone and mixed with the trigram, in Table 1.
NETWORKS = {f"mlp{number}": (f"MLP{number}", f"MLP{number + 1}") for number in (1, 3, 5, 7, 9)}
#: Row -> the number of classes, of the class-based trigrams.
CLASSES = {f"classes_{number}": number for number in (150, 200, 500, 1000, 2000)}
#: The gain in percent from n = 3 to 5 that counts as none, for Kneser-Ney.
NO_GAIN = 2.0


def below_kneser_ney(results: Results) -> Verdict:
    """Each network alone has a lower perplexity than Kneser-Ney with n = 5."""
    return conclude({name: against(results, row, RATIO, 1.0, higher=False) for row, (name, _) in NETWORKS.items()})


def mixing_helps(results: Results) -> Verdict:
    """Each network has a lower perplexity if its probabilities are averaged with those of the interpolated trigram."""
    return conclude(
        {f"{mixed} against {name}": against(results, row, MIXED, TEST, higher=False)
         for row, (name, mixed) in NETWORKS.items()}
    )  # fmt: skip


def hidden_units_help(results: Results) -> Verdict:
    """MLP1 has a lower perplexity than MLP3, which has no hidden units, alone and mixed with the trigram."""
    return conclude(
        {"alone": compare(results, "mlp1", "mlp3", TEST), "with trigram": compare(results, "mlp1", "mlp3", MIXED)}
    )


def longer_contexts_help_networks_alone(results: Results) -> Verdict:
    """With 4 words instead of 2, the network has a lower perplexity, and Kneser-Ney at most `NO_GAIN` percent."""
    compared = {f"network, {how}": compare(results, "mlp5", "mlp7", key)
                for how, key in (("alone", TEST), ("with trigram", MIXED))}  # fmt: skip
    cases = {name: Case.compared(case) for name, case in together(compared).items()}
    three, five = (results.values(f"kneser_ney_{order}", TEST) for order in (3, 5))
    cases["Kneser-Ney"] = Case.ruled(None)
    if three and five:
        gain = 100 * (1 - statistics.fmean(five) / statistics.fmean(three))
        cases["Kneser-Ney"] = Case.ruled(gain <= NO_GAIN, f"{gain:.1f} % lower with n = 5 than with n = 3")
    return decide(cases)


def no_direct_connections(results: Results) -> Verdict:
    """Mixed with the trigram, MLP9, without direct connections, has a lower perplexity than MLP1."""
    return conclude({"MLP10 against MLP2": compare(results, "mlp9", "mlp1", MIXED)})


def classes_help(results: Results) -> Verdict:
    """The class-based trigram with the lowest validation perplexity has a lower test perplexity than Kneser-Ney with
    n = 3, and its number of classes is neither the smallest nor the largest."""
    found = {row: results.values(row, VALIDATION) for row in CLASSES}
    words = results.values("kneser_ney_3", TEST)
    if not words or not all(found.values()):
        return decide({})
    best = min(CLASSES, key=lambda row: statistics.fmean(found[row]))
    ours, theirs = statistics.fmean(results.values(best, TEST)), statistics.fmean(words)
    numbers = list(CLASSES.values())
    return decide(
        {"below words": Case.ruled(ours < theirs, f"{ours:.1f} with {CLASSES[best]} classes, {theirs:.1f} with words"),
         "a best number": Case.ruled(min(numbers) < CLASSES[best] < max(numbers), f"{CLASSES[best]} classes")}
    )  # fmt: skip


def attention_helps(results: Results) -> Verdict:
    """The Transformer, which reads at least 32 words, has a lower perplexity than the networks that read 4."""
    return conclude({f"against {NETWORKS[row][0]}": compare(results, "transformer", row, TEST)
                     for row in ("mlp1", "mlp9")})  # fmt: skip


VERDICTS = {
    "network-below-kneser-ney": below_kneser_ney,
    "mixing-with-a-trigram-helps": mixing_helps,
    "hidden-units-help": hidden_units_help,
    "longer-contexts-help-networks-alone": longer_contexts_help_networks_alone,
    "no-direct-connections": no_direct_connections,
    "word-classes-help-trigrams": classes_help,
    "attention-below-a-fixed-window": attention_helps,
}
