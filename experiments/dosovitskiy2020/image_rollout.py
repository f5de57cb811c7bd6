"""Attention rollout of a Vision Transformer: how much each image patch contributes to the state that its head reads.

The rollout (Abnar & Zuidema 2020, `analysis.rollout`) is computed over the attention maps of the encoder, as in
Dosovitskiy et al. 2021 (appendix D.8, figure 6). Of the last layer it takes the row of the class token, or the mean of
all rows if there is no class token, and divides it by its sum over patches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from attention_research.analysis.rollout import rollout

#: A patch shows the object if its mean grey value (0 to 255) is above this. The data sets have a black background.
DARK = 25


def over_patches(weights: Float[np.ndarray, "L N T T"], read: Float[np.ndarray, "T"]) -> Float[np.ndarray, "Y X"]:
    """Returns the contributions of the patches to the head, as a grid. `read` are the weights of the states there."""
    length = weights.shape[-1]
    side = int(np.sqrt(length))
    reached = (read @ rollout(weights)[-1])[length - side * side :]
    return (reached / reached.sum()).reshape(side, side)


def shows_object(image: UInt8[np.ndarray, "Y X C"], side: int) -> np.ndarray:
    """Marks which of side x side patches are not background.

    >>> shows_object(np.uint8([[[0], [0]], [[0], [255]]]), 2).tolist()
    [[False, False], [False, True]]
    """
    grey = image.mean(axis=2)
    height = len(grey) // side
    return grey.reshape(side, height, side, height).mean(axis=(1, 3)) > DARK


def measure_rollout(*, workdir: Path, seed: int, examples: int, pictures: int, **_: Any) -> dict[str, Any]:
    """Measures attention rollout over test images.

    "mass" is the mean share of the rollout on patches that show the object, and "share" the share of these patches.
    "pictures" are the first images, each with its "image", its "map", and the names of its classes.
    """
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
