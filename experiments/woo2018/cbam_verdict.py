"""The verdict of `woo2018/cbam`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, compare

KEY = "evaluate.accuracy"
SPATIAL = ("spatial", "cbam", "sca")


def focuses(results: Results) -> Verdict:
    """Gates that look at the object (mass on its cell clearly above an even share's) and accuracy that is clearly above
    both networks without gates: for spatial attention alone; what the other two do is told beside."""
    masses = results.values("spatial", "measure.mass")
    cases = {other: compare(results, "spatial", other, KEY, higher=True) for other in ("none", "wider")}
    if not masses or any(case.clear is None for case in cases.values()):
        return Verdict(UNTESTED, "; ".join(case.text for case in cases.values()))
    area = max(results.values("spatial", "measure.area"))
    looks, better = min(masses) > area, all(case.clear for case in cases.values())
    said = [case.text for case in cases.values()]
    for row in SPATIAL:
        found, accuracy = results.mean(row, "measure.mass"), results.mean(row, KEY)
        if found is not None and accuracy is not None:
            said.append(f"{row}: {100 * found:.0f} % of the map on the digit's cell against {100 * area:.0f} % of even "
                        f"gates, accuracy {accuracy:.1f} %")  # fmt: skip
    because = "; ".join(said)
    if looks and better:
        return Verdict(HELD, because)
    if looks or better:
        what = "looking at the object, accuracy is no better" if looks else "accuracy, not looking at the object"
        return Verdict(CONDITION, f"held for {what}; {because}")
    return Verdict(FAILED, because)
