"""The verdicts of `lectures/positions`."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable

from attention_research.studies.columns import brief
from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    FAILED,
    HELD,
    UNTESTED,
    Case,
    Verdict,
    compare,
    conclude,
    decide,
    equivalent,
    margin_of,
)

#: The tolerance for sums of a few hundred numbers in float32.
EXACT = 1e-3
#: A distance that varies by less than this share counts as constant.
STEADY = 0.01
#: The number of steps over which sign changes are counted.
STEPS = 1024
PERPLEXITY = "evaluate.perplexity"


def _codes(results: Results, name: str) -> dict[str, float]:
    """Maps each encoding to its value."""
    found = {row.id: results.mean(row.id, f"measure.{name}") for row in results.rows if row.id.startswith("code_")}
    return {row.removeprefix("code_"): value for row, value in found.items() if value is not None}


def _of_codes(name: str, good: Callable[[dict[str, float]], bool]) -> Callable[[Results], Verdict]:
    """Returns a verdict function that tests one value of every encoding."""

    def verdict(results: Results) -> Verdict:
        found = _codes(results, name)
        if "sinusoidal" not in found or len(found) < 2:
            return Verdict(UNTESTED, "the encodings are not measured")
        said = "; ".join(f"{code} {brief(value, 3)}" for code, value in found.items())
        return Verdict(HELD if good(found) else FAILED, f"{name.replace('_', ' ')}: {said}")

    return verdict


def _of_sinusoid(names: dict[str, str], good: Callable[..., bool]) -> Callable[[Results], Verdict]:
    """Returns a verdict function on measurements of the sinusoid. `names` maps their names to descriptions."""

    def verdict(results: Results) -> Verdict:
        found = {name: results.values("sinusoid", f"measure.{name}") for name in names}
        if not all(found.values()):
            return Verdict(UNTESTED, "the sinusoid is not measured")
        first = {name: values[0] for name, values in found.items()}
        said = [f"{names[name]} {_spelled(value)}" for name, value in first.items()]
        return Verdict(HELD if good(**first) else FAILED, said)

    return verdict


def _spelled(value: float | list[float]) -> str:
    if not isinstance(value, list):
        return f"{value:.1e}"
    return ", ".join(brief(one, 3) for one in value[:12])


def _fades(by_offset: list[float], diagonal_variation: float) -> bool:
    """Dot products are constant along diagonals, largest at offset 0, and their means over longer and longer ranges of
    offsets decrease."""
    edges = [0, 1, 4, 16, 64, len(by_offset)]
    stretches = [statistics.fmean(by_offset[a:b]) for a, b in zip(edges, edges[1:], strict=False) if by_offset[a:b]]
    falls = all(later < before for before, later in zip(stretches, stretches[1:], strict=False))
    return falls and diagonal_variation < EXACT * by_offset[0]


def _slows(changes: list[int], changes_of_bits: list[int]) -> bool:
    """Each bit changes half as often as the one before. Sines also change less and less often, by the constant ratio of
    their frequencies."""
    halves = changes_of_bits == [(STEPS - 1) // 2**bit for bit in range(len(changes_of_bits))]
    often = [count for count in changes if count >= 16]
    ratios = [before / later for before, later in zip(often, often[1:], strict=False)]
    return halves and min(ratios) >= 1 and max(ratios) / min(ratios) < 1.25


def count_parameters(results: Results) -> Verdict:
    """A learned table has T times D parameters and the sinusoid has none, counted from the modules."""
    from attention_research.layers.positions.learned import LearnedPositions
    from attention_research.layers.positions.sinusoidal import SinusoidalPositions
    from attention_research.layers.structure import abstract

    if not results.rows:
        return Verdict(UNTESTED, "nothing is measured")
    cases = {}
    for length, width in ((50, 64), (128, 512), (5000, 128)):
        counts = []
        for kind in (LearnedPositions, SinusoidalPositions):
            make = functools.partial(kind, width=width, max_length=length)
            counts.append(
                sum(math.prod(x.shape) for x in abstract(lambda rngs, make=make: make(rngs=rngs))[1].values())
            )
        numbers = f"{counts[0]:,} learned, {counts[1]} fixed"
        cases[f"T = {length}, D = {width}"] = Case.ruled(counts == [length * width, 0], numbers)
    return decide(cases)


def order_needs(results: Results) -> Verdict:
    """Letters are copied in order better with positions in both stacks than without. The text also compares positions
    in one stack."""
    pair = lambda worse: compare(results, "order_both", f"order_{worse}", "measure.recall", higher=True)
    rivals = {"decoder": "the decoder alone", "encoder": "the encoder alone"}
    said = (f"both stacks against {name}: {pair(row).text}" for row, name in rivals.items())
    return conclude({"both stacks against none": pair("nowhere")}).beside(*said)


def tied(results: Results) -> Verdict:
    """Concatenation with tied blocks gives the same q, k and v as addition, and with untied blocks other ones."""
    same, other = results.mean("identities", "measure.tied"), results.mean("identities", "measure.untied")
    if same is None or other is None:
        return Verdict(UNTESTED, "the identities are not measured")
    cases = {
        "tied blocks agree": Case.ruled(same < EXACT, f"{same:.1e}"),
        "untied blocks differ": Case.ruled(other > EXACT, f"{other:.2g}"),
    }
    return decide(cases, "largest difference of q, k and v")


def add_or_concatenate(results: Results) -> Verdict:
    """At equal parameters the perplexities of added and concatenated positions agree within the margin.

    The margin, 3 %, is the difference that Haviv et al. 2022 call competitive: they report 20.97 without positions and
    20.42 with learned positions.
    """
    margin = margin_of(results, "add-against-concatenate")
    same = equivalent(results, "lm_added", "lm_concatenated", PERPLEXITY, margin)
    return conclude({"perplexity": same}).beside("the papers use addition")


def inside(results: Results) -> Verdict:
    """Both forms agree for one layer, and language models with positions at the input, or in q, k and v of every layer,
    are better than without positions."""
    same, bare = results.mean("identities", "measure.inside"), results.mean("identities", "measure.bare")
    cases = {
        "at the input, against none": compare(results, "lm_sinusoidal", "lm_none", PERPLEXITY),
        "in q, k, v, against none": compare(results, "lm_in_attention", "lm_none", PERPLEXITY),
    }
    verdict = conclude(cases)
    if same is None:
        return verdict.but(UNTESTED, "both forms are not compared")
    between = compare(results, "lm_in_attention", "lm_sinusoidal", PERPLEXITY).said
    forms = (
        f"largest difference between x + p at its input and p W added to q, k, v {same:.1e}; with p itself {bare:.2g}"
    )
    return decide({**verdict.cases, "both forms agree for one layer": Case.ruled(same < EXACT < bare, forms)}, between)


def four_cells(results: Results) -> Verdict:
    """The weights of relative schemes do not change when the text is shifted; those of absolute schemes do.

    The text compares the scheme of each cell with none.
    """
    moved = {
        row.id.removeprefix("shift_"): results.mean(row.id, "measure.moved")
        for row in results.rows
        if row.id.startswith("shift_")
    }
    if not moved or None in moved.values():
        return Verdict(UNTESTED, "shifts are not measured")
    cells = {"sinusoidal": "fixed, absolute", "learned": "learned, absolute", "alibi": "fixed, relative",
             "relative": "learned, relative"}  # fmt: skip
    beside = [f"{name}: {compare(results, f'lm_{row}', 'lm_none', PERPLEXITY).said}" for row, name in cells.items()]
    shifts = {
        f"weights under a shift, {name}": Case.ruled(
            change > EXACT if name == "absolute" else change < EXACT, f"change by {change:.0e}"
        )
        for name, change in moved.items()
    }
    return decide(shifts, *beside)


VERDICTS = {
    "order-needs-positions": order_needs,
    "position-unique": _of_codes("smallest_distance", lambda found: found["sinusoidal"] > EXACT),
    "position-distance-consistent": _of_codes(
        "inconsistency", lambda found: found["sinusoidal"] < STEADY < found.get("fraction", 1.0)
    ),
    "position-bounded": _of_codes("largest", lambda found: found["sinusoidal"] <= 1 < found.get("index", math.inf)),
    "position-deterministic": _of_codes("repeatable", lambda found: found["sinusoidal"] == 1),
    "learned-positions-count": count_parameters,
    "sinusoid-heat-map": _of_sinusoid(
        {"wavelength_error": "wavelengths against 2 pi 10000^(2i/D), largest relative difference"},
        lambda wavelength_error: wavelength_error < STEADY,
    ),
    "sinusoid-dot-product-map": _of_sinusoid(
        {"by_offset": "dot products by offset", "diagonal_variation": "largest variation along a diagonal"}, _fades
    ),
    "binary-counter-analogy": _of_sinusoid(
        {"changes": "sign changes of the sines in 1,024 steps", "changes_of_bits": "of the bits"}, _slows
    ),
    "sinusoid-shift-is-rotation": _of_sinusoid(
        {"rotation_error": "p(t + k) against a rotation by k alone, largest difference"},
        lambda rotation_error: rotation_error < EXACT,
    ),
    "add-against-concatenate": add_or_concatenate,
    "concatenate-equals-add-when-tied": tied,
    "positions-in-queries-keys-values": inside,
    "fixed-learned-absolute-relative": four_cells,
}
