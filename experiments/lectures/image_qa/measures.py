"""Measures how often questions about a collage are answered correctly, by form, and where the words attend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...xu2015.caption_measures import places


def measure_questions(*, workdir: Path, seed: int, examples: int = 1000, drawn: int = 4, **_: Any) -> dict[str, Any]:
    """Measures a trained run on test questions.

    "parameters" is the number of the model's parameters. "right" and "right_FORM" are shares of correct answers. The
    following are over questions whose answer is in one cell: "mass" is the weight on that cell, averaged over heads and
    words; "best_head" is that of the head with the largest weight; "even" is that of uniform weights. "drawn" holds the
    first of these questions, each with "image", "question", "answer", "said" (the model's answer), and "map", the mean
    over heads and words.
    """
    from attention_research.data.collage_questions import FORMS
    from attention_research.training.evaluation import Trained

    del seed
    trained = Trained(workdir)
    merge, grid = trained.trainer.structure.merge, trained.data.layout.grid

    def look(model: Any, batch: Any) -> Any:
        log_p, aux = merge(*model).log_probabilities(batch)
        return jax.numpy.argmax(log_p, axis=1), aux["reader"]["attention_weights"]

    ask = jax.jit(look)
    right: dict[str, list[bool]] = {form: [] for form in FORMS}
    masses: list[float] = []
    by_head: list[np.ndarray] = []
    shown: list[dict[str, Any]] = []
    for ids, batch in trained.data.evaluation_batches("test", trained.evaluation.batch_size, examples=examples):
        said, weights = jax.device_get(ask(trained.model(), batch))
        for row in np.flatnonzero(ids >= 0).tolist():
            right[FORMS[batch["form"][row] - 1]].append(bool(said[row] == batch["label"][row]))
            if not batch["cells"][row]:
                continue
            words = int(np.sum(batch["source"][row] != 0))
            own = weights[row, :, :words]  # [N T S]
            here = (own * (places(own.shape[-1], grid) == batch["cells"][row])).sum(axis=-1)
            masses.append(float(here.mean()))
            by_head.append(here.mean(axis=1))
            if len(shown) < drawn:
                shown.append(_shown(trained, batch, row, said[row], own.mean(axis=(0, 1))))
    return {
        "parameters": sum(array.size for array in jax.tree.leaves(trained.model()[0])),
        "right": float(np.mean([one for some in right.values() for one in some])),
        **{f"right_{form}": float(np.mean(some)) if some else None for form, some in right.items()},
        "mass": float(np.mean(masses)), "best_head": float(np.mean(by_head, axis=0).max()), "even": 1 / grid**2,
        "drawn": shown,
    }  # fmt: skip


def _shown(trained: Any, batch: Any, row: int, said: Any, weights: np.ndarray) -> dict[str, Any]:
    """Returns the data of one question for the figure."""
    side = round(len(weights) ** 0.5)
    return {
        "image": batch["image"][row].tolist(),
        "question": trained.data.tokenizer.decode([batch["source"][row].tolist()])[0],
        "answer": trained.data.classes[int(batch["label"][row])],
        "said": trained.data.classes[int(said)],
        "map": np.round(weights.reshape(side, side), 4).tolist(),
    }
