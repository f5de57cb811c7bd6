"""The verdicts and the figure of `lectures/image_qa`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.analysis.picture_strip import lit
from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.figures import Figure, canvas, caption, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FIGURE, UNTESTED, Case, Verdict, compare, decide

FORMS = ("place", "colour", "count")


def picks(results: Results) -> Verdict:
    """Cross-attention answers clearly more questions correctly, and in every seed its weight on the right cell is above
    that of uniform attention."""
    masses, best = (
        results.values("cross_attention", "measure.mass"),
        results.mean("cross_attention", "measure.best_head"),
    )
    looks = Case(UNMEASURED)
    if masses:
        even = max(results.values("cross_attention", "measure.even"))
        looks = Case.ruled(
            min(masses) > even,
            f"{100 * np.mean(masses):.0f} %, of the best head {100 * (best or 0.0):.0f} %, uniform attention "
            f"{100 * even:.0f} %",
        )
    answers = compare(results, "cross_attention", "pooled", "measure.right", higher=True)
    forms = (compare(results, "cross_attention", "pooled", f"measure.right_{form}", higher=True) for form in FORMS)
    cases = {"more right answers": Case.compared(answers), "weight on the right cell": looks}
    return decide(cases, *(form.said for form in forms))


def maps(results: Results) -> Verdict:
    """The maps of held-out questions are drawn. They decide nothing."""
    drawn = results.values("cross_attention", "measure.drawn")
    if not drawn:
        return Verdict(UNTESTED, "no map is measured")
    said = (f"{one['question']} {one['said']} ({one['answer']})" for one in drawn[0])
    return Verdict(FIGURE, f"figures/question_maps.png: {', '.join(said)}")


def draw_maps(results: Results, folder: Path) -> Figure | None:
    """Draws held-out images with their questions and the cross-attention maps of the first seed."""
    found = results.values("cross_attention", "measure.drawn")
    if not found or not found[0]:
        return None
    pyplot = canvas()
    shown = found[0]
    figure, axes = pyplot.subplots(2, len(shown), figsize=(2.6 * len(shown), 5.2), squeeze=False)
    for (above, below), one in zip(axes.T, shown, strict=True):
        image = np.asarray(one["image"], np.uint8)
        above.imshow(image)
        above.set_title(one["question"].replace(" at ", "\nat ").replace(" is ", " is\n", 1), fontsize=8)
        lit(below, image, np.asarray(one["map"]))
        below.set_title(f"output {one['said']}, answer {one['answer']}", fontsize=8)
    for axis in axes.ravel():
        axis.axis("off")
    where = folder / "question_maps.png"
    save(figure, where, caption(results, "below: attention over the image, bright: large weights", seeds="1 seed"))
    said = "; ".join(f"{one['question']} output {one['said']}, answer {one['answer']}" for one in shown)
    return Figure(where, "Attention from questions to images", f"{said}.")


VERDICTS = {"cross-attention-two-modalities": picks, "image-qa-figure": maps}
