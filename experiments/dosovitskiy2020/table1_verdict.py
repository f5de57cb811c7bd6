"""The verdict of `dosovitskiy2020/table1`."""

from __future__ import annotations

from collections.abc import Iterator

from attention_research.studies.results import Results, published
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, clearly_above

from .data_size import AUGMENTED, NAMES, SIZES

ACCURACY, MAJORITY = "evaluate.accuracy", "evaluate.majority_accuracy"
COUNT, WITHOUT_HEAD = "measure.parameters", "measure.without_head"
#: Points of accuracy that a ViT may be below the CNN at the most images and still stand beside it.
NEAR = 2.0


def applies(results: Results) -> Verdict:
    """Attention over patches, and over a CNN's map, is clearly above always naming one class at every size: held where
    the ViT with the most images is besides within `NEAR` points of the CNN or above it. One seed tests nothing."""
    gaps = dict(_gaps(results, SIZES, ""))
    if SIZES[-1] not in gaps or results.seeds < 2:
        missing = "ViT and CNN are not both trained on the most images by two seeds"
        return Verdict(UNTESTED, "; ".join([missing, *_counts(results)]))
    because = "; ".join([*_said(results, gaps), *_counts(results)])
    learned = [_learns(results, f"{model}_{size}") for model in ("vit", "cnn_attention") for size in SIZES]
    if False in learned:
        return Verdict(FAILED, because)
    if gaps[SIZES[-1]] <= NEAR:
        return Verdict(HELD, because)
    what = f"patches can be attended to, and a CNN of the same data is {gaps[SIZES[-1]]:.1f} points better"
    return Verdict(CONDITION, f"{what} at {SIZES[-1]:,} images; {because}")


def _learns(results: Results, row: str) -> bool | None:
    """Whether a row's accuracy is clearly above that of always one class; None where it is not measured."""
    found = results.values(row, ACCURACY)
    return clearly_above(found, results.values(row, MAJORITY)) if found else None


def _gaps(results: Results, sizes: tuple[int, ...], suffix: str) -> Iterator[tuple[int, float]]:
    """Points that the CNN is above the ViT, by size, where both are measured."""
    for size in sizes:
        cnn, vit = (results.mean(f"{model}_{size}{suffix}", ACCURACY) for model in ("cnn", "vit"))
        if cnn is not None and vit is not None:
            yield size, cnn - vit


def _said(results: Results, gaps: dict[int, float]) -> Iterator[str]:
    for model, name in NAMES.items():
        means = [(size, results.mean(f"{model}_{size}", ACCURACY)) for size in SIZES]
        if found := [f"{size:,}: {mean:.1f}" for size, mean in means if mean is not None]:
            yield f"{name} by images: {', '.join(found)}"
    yield f"the CNN above the ViT by {', '.join(f'{gap:+.1f} at {size:,}' for size, gap in gaps.items())}"
    if augmented := dict(_gaps(results, AUGMENTED, "_augmented")):
        yield f"with flips and shifts by {', '.join(f'{gap:+.1f} at {size:,}' for size, gap in augmented.items())}"


def _counts(results: Results) -> list[str]:
    """Each published size: its count, without its head, and the printed millions."""
    cells = published(results.study)
    found = []
    for row in results.rows:
        counts, bodies = results.values(row.id, COUNT), results.values(row.id, WITHOUT_HEAD)
        if counts and bodies:
            printed = cells.get(row.id, {}).get("M parameters", "none")
            found.append(f"{row.name} {counts[0]:,} parameters, {bodies[0]:,} without head (printed: {printed} M)")
    return found
