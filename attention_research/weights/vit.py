"""The Vision Transformer, Dosovitskiy et al. 2021: pre-norm encoder of patches, exact GELU, linear head.

If overrides of `load` change the image side or the classes, section 3.2 applies: the table of positions is interpolated
over the grid of patches, and the head is set to zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.errors import ConfigError
from attention_research.weights.activations import activation
from attention_research.weights.tensors import Entry, dense, norm

EXPECTED = {"qkv_bias": True}
TASK = "classification"
PRE_NORM = tuple(("norm", layer, "dropout", "residual") for layer in ("self_attention", "feed_forward"))
POSITIONS, HEAD = "encoder.positions.table", ("head.kernel", "head.bias")
#: The labels of a config.json without `id2label`: save_pretrained leaves out the default, two classes.
DEFAULT_LABELS = ("LABEL_0", "LABEL_1")
#: The scaling of pixels from 0 to 1 in our models: (x - 0.5) / 0.5.
PIXELS = {"image_mean": 0.5, "image_std": 0.5}
#: The settings with which a folder scales pixels so.
SCALED = {"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}


def model(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], int]:
    """(the model section of the config, the tokens of an image). Raises ConfigError if its pixels are scaled
    differently."""
    theirs = folder.config
    scaled = folder.json("preprocessor_config.json") if folder.has("preprocessor_config.json") else {}
    where = folder.path / "preprocessor_config.json"
    for key, ours in PIXELS.items():
        if any(value != ours for value in scaled.get(key) or ()):
            raise ConfigError(f"{where}: {key} is {scaled[key]}; ours has {ours} for each channel")
    for key, expected in SCALED.items():
        if (found := scaled.get(key, expected)) not in (None, expected):
            raise ConfigError(f"{where}: {key} is {found!r}; ours has {expected!r}")
    length = (theirs["image_size"] // theirs["patch_size"]) ** 2 + 1
    return {
        "kind": "vision_transformer",
        "patch_side": theirs["patch_size"],
        "num_classes": len(theirs.get("id2label") or DEFAULT_LABELS),
        "max_length": length,
        "num_layers": theirs["num_hidden_layers"],
        "width": theirs["hidden_size"],
        "num_heads": theirs["num_attention_heads"],
        "dropout_rate": theirs["hidden_dropout_prob"],
        "feed_forward": {
            "kind": "dense",
            "hidden_width": theirs["intermediate_size"],
            "activation": activation(folder, "hidden_act"),
        },
        "norm": {"kind": "layer_norm", "epsilon": theirs["layer_norm_eps"]},
        "encoder": {"steps": PRE_NORM, "final_norm": True},
    }, length


def images(folder: CheckpointFolder) -> dict[str, int]:
    """The side and channels of its images, as in the root of a config."""
    return {"side": folder.config["image_size"], "channels": folder.config["num_channels"]}


def data(tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The data section: ImageNet, on whose classes the released models are trained."""
    return {"kind": "images", "name": "imagenet2012"}


def layers(folder: CheckpointFolder) -> dict[str, int]:
    """The number of layers of each stack."""
    return {"encoder": folder.config["num_hidden_layers"]}


def entries(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> list[Entry]:
    """The entries of all our arrays."""
    ours, theirs = "encoder.stack.segments.0", "vit.encoder.layer.{}"
    projection = "vit.embeddings.patch_embeddings.projection"
    found = [
        Entry("embedding.projection.kernel", f"{projection}.weight", _patches),
        Entry("embedding.projection.bias", f"{projection}.bias"),
        Entry("class_token", "vit.embeddings.cls_token", lambda x: x[0, 0]),
        Entry(POSITIONS, "vit.embeddings.position_embeddings", lambda x: x[0]),
        *norm("encoder.final_norm", "vit.layernorm"),
        *norm(f"{ours}.norm", f"{theirs}.layernorm_before"),
        *norm(f"{ours}.norm_2", f"{theirs}.layernorm_after"),
        *dense(f"{ours}.self_attention.output", f"{theirs}.attention.output.dense"),
        *dense(f"{ours}.feed_forward.hidden", f"{theirs}.intermediate.dense"),
        *dense(f"{ours}.feed_forward.output", f"{theirs}.output.dense"),
        *dense("head", "classifier"),
    ]
    for part in ("query", "key", "value"):
        found += dense(f"{ours}.self_attention.{part}", f"{theirs}.attention.attention.{part}")
    return found


def _patches(kernel: Float[np.ndarray, "D C P P"]) -> Float[np.ndarray, "F D"]:
    """A PyTorch convolution of stride P as a matrix over (row, column, channel)."""
    return kernel.transpose(2, 3, 1, 0).reshape(-1, len(kernel))


def fitted(arrays: Mapping[str, np.ndarray], wanted: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays for a model with the given shapes: interpolated positions, and a head of zeros for other classes."""
    found = dict(arrays)
    if (length := wanted[POSITIONS].shape[0]) != len(found[POSITIONS]):
        found[POSITIONS] = interpolated(found[POSITIONS], length)
    if wanted[HEAD[0]].shape[1] != found[HEAD[0]].shape[1]:
        found |= {name: np.zeros(wanted[name].shape, np.float32) for name in HEAD}
    return found


def interpolated(table: Float[np.ndarray, "T D"], length: int) -> Float[np.ndarray, "S D"]:
    """The table with its grid interpolated to `length` - 1 positions; the vector of the class token is kept.

    Interpolation is linear in rows and columns and keeps the corners, as in the released code (`scipy.ndimage.zoom` of
    order 1).

    A grid of 2 x 2 positions becomes one of 3 x 3:

    >>> table = np.array([[9.0], [0.0], [1.0], [2.0], [3.0]])
    >>> print(interpolated(table, length=10).ravel())
    [9.  0.  0.5 1.  1.  1.5 2.  2.  2.5 3. ]
    """
    before, after = (math.isqrt(rows - 1) for rows in (len(table), length))
    places = np.linspace(0, before - 1, after)
    weights = np.maximum(1 - np.abs(places[:, None] - np.arange(before)), 0)
    grid = table[1:].reshape(before, before, -1)
    moved = np.einsum("ai,bj,ijd->abd", weights, weights, grid).reshape(after * after, -1)
    return np.concatenate([table[:1], moved]).astype(np.float32)
