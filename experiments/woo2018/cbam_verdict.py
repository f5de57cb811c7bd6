"""The verdict of `woo2018/cbam`."""

from __future__ import annotations

from collections.abc import Iterator

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, compare

KEY = "evaluate.accuracy"
SPATIAL = ("spatial", "spatial_released", "cbam", "cbam_released", "sca")


def focuses(results: Results) -> Verdict:
    """Gates that look at the object (mass on its cell clearly above an even share's) and accuracy that is clearly above
    both networks without gates: for spatial attention alone as the paper writes it; where it holds only as released,
    that is its condition. What the others do is told beside."""
    as_written = _case(results, "spatial")
    if as_written.status == UNTESTED:
        return as_written
    because = "; ".join([as_written.because, *_said(results)])
    if as_written.status == HELD:
        return Verdict(HELD, because)
    released = _case(results, "spatial_released")
    if released.status == HELD:
        return Verdict(
            CONDITION, f"held as released, with normalised logits: {released.because}; as written: {because}"
        )
    told = "" if released.status == UNTESTED else f"; as released: {released.status}, {released.because}"
    return Verdict(as_written.status, because + told)


def _case(results: Results, row: str) -> Verdict:
    """The verdict of one form of spatial attention."""
    masses = results.values(row, "measure.mass")
    cases = {other: compare(results, row, other, KEY, higher=True) for other in ("none", "wider")}
    because = "; ".join(case.text for case in cases.values())
    if not masses or any(case.clear is None for case in cases.values()):
        return Verdict(UNTESTED, because)
    looks = min(masses) > max(results.values(row, "measure.area"))
    better = all(case.clear for case in cases.values())
    if looks and better:
        return Verdict(HELD, because)
    if looks or better:
        what = "looking at the object, accuracy is no better" if looks else "accuracy, not looking at the object"
        return Verdict(CONDITION, f"held for {what}; {because}")
    return Verdict(FAILED, because)


def _said(results: Results) -> Iterator[str]:
    for row in SPATIAL:
        found, area = results.mean(row, "measure.mass"), results.mean(row, "measure.area")
        accuracy = results.mean(row, KEY)
        if found is not None and area is not None and accuracy is not None:
            where = f"{100 * found:.0f} % of the map on the digit's cell against {100 * area:.0f} % of even gates"
            yield f"{row}: {where}, accuracy {accuracy:.1f} %"
