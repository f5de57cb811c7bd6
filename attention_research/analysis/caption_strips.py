"""Strips of pictures: what a captioner wrote, word by word, and the mask of where it looked for each word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.analysis.caption_measures import weights_of
from attention_research.tokens import EOS


def measure_strips(*, workdir: Path, seed: int, pictures: int = 2, **_: Any) -> dict[str, Any]:
    """Of the first test pictures: "strips", each with its "image" [Y X C], the "words" that beam search wrote, and for
    each the weights over the map, "masks" [T V U]."""
    from attention_research.training.evaluation import Trained

    del seed
    trained = Trained(workdir)
    model, merge = trained.model(), trained.trainer.structure.merge
    look = jax.jit(lambda model, batch: weights_of(merge(*model).log_likelihood(batch)[1]["decoder"]))
    _, batch = next(iter(trained.data.evaluation_batches("test", pictures, examples=None)))
    texts = trained.translations(model, iter([(np.arange(pictures), batch)]))
    written = np.zeros_like(batch["target"])
    for row, text in texts.items():
        tokens = trained.data.tokenizer.encode([text])[0][: written.shape[1]]
        written[row, : len(tokens)] = tokens
    weights = np.asarray(look(model, {**batch, "target": jnp.asarray(written)}))
    side = round(weights.shape[-1] ** 0.5)
    strips = []
    for row, text in sorted(texts.items()):
        length = int(np.sum((written[row] != 0) & (written[row] != EOS)))
        masks = weights[row, :length].reshape(length, side, side)
        strips.append({"image": batch["image"][row].tolist(), "words": text.split()[:length],
                       "masks": np.round(masks, 4).tolist()})  # fmt: skip
    return {"strips": strips}
