"""The verdicts of `li2018/landscape`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import FIGURE, UNTESTED, Verdict, compare, conclude

DEPTHS = (20, 56)
#: A measure of unsmoothness -> what it is called.
MEASURES = {"negative": "share that bends down", "roughness": "variance that no paraboloid explains"}


def smoother(results: Results) -> Verdict:
    """Residual against plain at both depths, by either measure."""
    cases = {
        f"{depth} layers, {name}": compare(results, f"residual_{depth}", f"plain_{depth}", f"measure.{key}")
        for depth in DEPTHS
        for key, name in MEASURES.items()
    }
    return conclude(cases)


def drawn(results: Results) -> Verdict:
    """Both surfaces of one depth, drawn on the same grid, which decides nothing."""
    both = lambda depth: (results.values(f"{kind}_{depth}", "measure.surface") for kind in ("plain", "residual"))
    there = [depth for depth in DEPTHS if all(both(depth))]
    if not there:
        return Verdict(UNTESTED, "no pair of surfaces is measured")
    said = ", ".join(f"{depth} layers" for depth in there)
    return Verdict(FIGURE, f"figures/loss_contours.png and figures/loss_surfaces.png: {said}, first seed, same axes")


VERDICTS = {"residuals-smooth-landscape": smoother, "landscape-figure": drawn}
