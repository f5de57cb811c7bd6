"""The verdict of `dosovitskiy2020/data_size`."""

from __future__ import annotations

from collections.abc import Iterator

from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, against, conclude, margin_of, no_worse

SIZES = (250, 1000, 4000, 16_000)
#: The sizes with augmentation by flips and shifts, and those with attention over a CNN's feature map.
AUGMENTED = (250, 4000)
MAPPED = (250, 16_000)
NAMES = {"vit": "ViT", "cnn": "CNN", "cnn_attention": "CNN, attention over its map"}
ACCURACY, MAJORITY = "evaluate.accuracy", "evaluate.majority_accuracy"


def applies(results: Results) -> Verdict:
    """Attention over patches, and over a CNN's feature map, is above the majority class at every size. With the most
    images the ViT is below the CNN by less than the margin of the claim."""
    cases = {
        f"{NAMES[model]} of {size:,} images": against(results, f"{model}_{size}", ACCURACY, MAJORITY)
        for model, sizes in (("vit", SIZES), ("cnn_attention", MAPPED))
        for size in sizes
    }
    margin = margin_of(results, "attention-beyond-rnn")
    near = no_worse(results, f"vit_{SIZES[-1]}", f"cnn_{SIZES[-1]}", ACCURACY, margin, higher=True)
    return conclude({"ViT near the CNN": near, **cases}).beside(*_said(results, dict(_gaps(results, SIZES, ""))))


def _gaps(results: Results, sizes: tuple[int, ...], suffix: str) -> Iterator[tuple[int, float]]:
    """Yields by how many points the CNN is above the ViT, for the sizes at which both are measured."""
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
