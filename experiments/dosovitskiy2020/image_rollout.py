"""Attention rollout of a Vision Transformer: what of an image reaches the state that its head reads.

Abnar & Zuidema 2020 (`analysis.rollout`) over the encoder's maps, as Dosovitskiy et al. 2021 (appendix D.8) do for
their figure 6; of the last layer the class token's row, or the mean of all rows where there is no class token, divided
by its sum over the patches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from attention_research.analysis.rollout import rollout

#: A patch shows the object where its mean grey value is above this, of 255: the background of the sets read is black.
DARK = 25


def over_patches(weights: Float[np.ndarray, "L N T T"], read: Float[np.ndarray, "T"]) -> Float[np.ndarray, "Y X"]:
    """The share of each patch, as a square, in what the head reads; `read` is how much each state counts there."""
    length = weights.shape[-1]
    side = int(np.sqrt(length))
    reached = (read @ rollout(weights)[-1])[length - side * side :]
    return (reached / reached.sum()).reshape(side, side)


def shows_object(image: UInt8[np.ndarray, "Y X C"], side: int) -> np.ndarray:
    """Which of side x side patches are not background.

    >>> shows_object(np.uint8([[[0], [0]], [[0], [255]]]), 2).tolist()
    [[False, False], [False, True]]
    """
    grey = image.mean(axis=2)
    height = len(grey) // side
    return grey.reshape(side, height, side, height).mean(axis=(1, 3)) > DARK


def measure_rollout(*, workdir: Path, seed: int, examples: int, pictures: int, **_: Any) -> dict[str, Any]:
    """Over test images: "mass", the mean share of the rollout on patches that show the object, and "share", how many
    patches those are; "pictures" of the first ones, each with its "image", "map" and the names of its classes."""
    import jax

    from attention_research.analysis.attention import layer_weights
    from attention_research.training.evaluation import Trained

    del seed
    trained = Trained(workdir)
    structure, model = trained.trainer.structure, trained.model()

    @jax.jit
    def run(model: Any, image: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        log_p, aux = structure.merge(*model).log_probabilities({"image": image})
        return log_p, layer_weights({"encoder": aux["encoder"]})["encoder", "self_attention"], aux["pooling"]["weights"]

    masses, shares = [], []
    shown: list[dict[str, Any]] = []
    for ids, batch in trained.data.evaluation_batches("test", 32, examples=examples):
        log_p, weights, read = map(np.asarray, run(model, batch["image"]))
        for row in np.flatnonzero(ids >= 0):
            image, label = batch["image"][row], trained.data.classes[batch["label"][row]]
            reached = over_patches(weights[:, row].astype(np.float64), read[row].astype(np.float64))
            there = shows_object(image, len(reached))
            masses.append(float(reached[there].sum()))
            shares.append(float(there.mean()))
            if len(shown) < pictures:
                named = {"label": label, "predicted": trained.data.classes[int(log_p[row].argmax())]}
                grey = image.mean(axis=2).astype(int).tolist()
                shown.append({"image": grey, "map": reached.round(5).tolist(), **named})
    return {"mass": float(np.mean(masses)), "share": float(np.mean(shares)), "pictures": shown}
