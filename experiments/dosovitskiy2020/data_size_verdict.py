"""The verdict of `dosovitskiy2020/data_size`."""

from __future__ import annotations

from collections.abc import Iterator

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, clearly_above

SIZES = (250, 1000, 4000, 16_000)
#: Sizes that are also trained on with flips and shifts, and those of attention over a CNN's map.
AUGMENTED = (250, 4000)
MAPPED = (250, 16_000)
NAMES = {"vit": "ViT", "cnn": "CNN", "cnn_attention": "CNN, attention over its map"}
ACCURACY, MAJORITY = "evaluate.accuracy", "evaluate.majority_accuracy"
#: Points of accuracy that a ViT may be below the CNN at the most images and still stand beside it.
NEAR = 2.0


def applies(results: Results) -> Verdict:
    """Attention over patches, and over a CNN's map, is clearly above always naming one class at every size: held where
    the ViT with the most images is besides within `NEAR` points of the CNN or above it. One seed tests nothing."""
    gaps = dict(_gaps(results, SIZES, ""))
    if SIZES[-1] not in gaps or results.seeds < 2:
        return Verdict(UNTESTED, "ViT and CNN are not both trained on the most images by two seeds")
    because = "; ".join(_said(results, gaps))
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
