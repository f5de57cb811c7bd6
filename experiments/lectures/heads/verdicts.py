"""The verdicts of `lectures/heads`."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Verdict, against, between, conclude

FAR_LINKS = ("entity", "syntax")


def _values(results: Results, row: str, name: str) -> tuple[float, ...]:
    return results.values(row, f"measure.{name}")


def _all(results: Results, cases: list[tuple[str, str, str]]) -> Verdict:
    """Returns the verdict on (row, more, less) cases, each a comparison of two numbers of the same runs."""
    return conclude({
        f"{row}, {more} against {less}": against(results, row, f"measure.{more}", f"measure.{less}")
        for row, more, less in cases
    })  # fmt: skip


def differ(results: Results) -> Verdict:
    """The divergence of trained heads is above that of untrained heads and above that of copies of one head."""
    cases = [(row, "divergence", "divergence_untrained") for row in ("blanks", "reviews")]
    verdict = _all(results, [*cases, ("blanks", "divergence", "divergence_copies")])
    spared = results.mean("blanks", "measure.spared")
    return verdict.beside("" if spared is None else f"heads that can be removed one at a time: {100 * spared:.0f} %")


def specialise(results: Results) -> Verdict:
    """For each distant link the best head is better than the best fixed offset."""
    return _all(results, [("blanks", f"best_{link}", f"offset_{link}") for link in FAR_LINKS])


def relevance(results: Results) -> Verdict:
    """The largest weight of a head on the deciding word is higher after training than before."""
    links = ("syntax", "entity", "local")
    return _all(results, [("blanks", f"mass_{link}", f"mass_{link}_untrained") for link in links])


def maps_shown(results: Results) -> Verdict:
    """The two maps are drawn, and their heads point at the deciding word in clearly more than half of the
    sentences."""
    if not _values(results, "blanks", "maps"):
        return Verdict(UNTESTED, "no maps are kept")
    cases = {f"best head at {link}": against(results, "blanks", f"measure.best_{link}", 0.5) for link in FAR_LINKS}
    return conclude(cases).beside("drawn in figures/maps.png")


def early_local(results: Results) -> Verdict:
    """After training the distance clearly grows from the first layer to the last, and by clearly more than before
    training.

    The text also gives the distances and the pointing accuracy by layer.
    """
    cases, said, missing = {}, [], []
    for row in ("blanks", "reviews"):
        trained, before = (_values(results, row, name) for name in ("distances", "distances_untrained"))
        if not trained:
            missing.append(row)
            continue
        mean = lambda lists: [statistics.fmean(at) for at in zip(*lists, strict=True)]
        spell = lambda values: ", ".join(f"{value:.1f}" for value in values)
        grown, at_first = ([one[-1] - one[0] for one in lists] for lists in (trained, before))
        name = "growth of the distance in tokens"
        cases[f"{row}, grows by layer"] = between("trained", "", grown, [0.0] * len(grown), name, in_pairs=True)
        cases[f"{row}, more than before training"] = between(
            "trained", "untrained", grown, at_first, name, in_pairs=len(grown) == len(at_first)
        )
        said.append(f"{row}, tokens by layer: trained {spell(mean(trained))}, untrained {spell(mean(before))}")
    if by_layer := _values(results, "blanks", "by_layer_entity"):
        shares = ", ".join(f"{statistics.fmean(at):.2f}" for at in zip(*by_layer, strict=True))
        said.append(f"accuracy of the best head for pronoun -> name by encoder layer: {shares}")
    return conclude(cases, untested=missing).beside(*said)


VERDICTS: dict[str, Callable[[Results], Verdict]] = {
    "heads-look-at-different-things": differ,
    "heads-specialise": specialise,
    "learned-relevance-emerges": relevance,
    "head-maps-figure": maps_shown,
    "early-local-deep-long": early_local,
}
