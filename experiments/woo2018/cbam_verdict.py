"""The verdict of `woo2018/cbam`."""

from __future__ import annotations

from collections.abc import Iterator

from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, against, compare, conclude

KEY = "evaluate.accuracy"
SPATIAL = ("spatial", "spatial_released", "cbam", "cbam_released", "sca")


def focuses(results: Results) -> Verdict:
    """Gates that look at the object (mass on its cell above an even share's) and accuracy above both networks without
    gates: of spatial attention alone as the paper writes it. What its released form and the others do is told."""
    cases = {other: compare(results, "spatial", other, KEY, higher=True) for other in ("none", "wider")}
    cases["mass on the object"] = against(results, "spatial", "measure.mass", "measure.area")
    return conclude(cases).beside(*_said(results))


def _said(results: Results) -> Iterator[str]:
    for row in SPATIAL:
        found, area = results.mean(row, "measure.mass"), results.mean(row, "measure.area")
        accuracy = results.mean(row, KEY)
        if found is not None and area is not None and accuracy is not None:
            where = f"{100 * found:.0f} % of the map on the digit's cell against {100 * area:.0f} % of even gates"
            yield f"{row}: {where}, accuracy {accuracy:.1f} %"
