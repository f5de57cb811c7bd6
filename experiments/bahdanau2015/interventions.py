"""Interventions on a trained recurrent translation model: the loss of BLEU when a part of its input is removed.

A decoder gets two inputs from the source: its initial state, and the context of each step. Without the initial state
(zeros) a decoder with attention can still attend to the source. With one shared context (uniform weights over source
positions) it still gets the source, but the same vector at every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from attention_research.analysis.by_length import sample, translate
from attention_research.analysis.teacher_forced import weights_of
from attention_research.tasks.evaluation import corpus_bleu
from attention_research.training.evaluation import Trained

_PAIRS = 64


class ZeroStart:
    """A model for decoding whose recurrent decoder starts from zeros and which otherwise equals the given model."""

    def __init__(self, model: Any):
        self.encode, self.step, self._model = model.encode, model.step, model

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """Returns the cache of the model with the states of its layers set to 0."""
        cache = self._model.start(memory, length)
        layers = jax.tree.map(jnp.zeros_like, cache["state"]["layers"])
        return {**cache, "state": {**cache["state"], "layers": layers}}


def shared_context(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Sets the parameters of the alignment score to 0.

    Then all scores are 0 and the weights are uniform over source positions, so that the context is the same at every
    step. This holds for global alignments.
    """
    return {name: jnp.zeros_like(x) if ".alignment." in name else x for name, x in parameters.items()}


def context_distance(contexts: Float[np.ndarray, "T D"]) -> float:
    """The mean distance between the contexts of two steps, divided by the mean length of a context. It is 0 if all are
    equal."""
    if len(contexts) < 2:
        return 0.0
    apart = np.linalg.norm(contexts[:, None] - contexts[None], axis=-1)
    length = np.linalg.norm(contexts, axis=1).mean()
    return float(apart[~np.eye(len(contexts), dtype=bool)].mean() / length) if length else 0.0


def mean_context_distance(trained: Trained, sources: Sequence[str], references: Sequence[str]) -> float:
    """The mean of `context_distance` over sentence pairs, with teacher forcing."""
    read, written = trained.data.tokenizer.encode(sources), trained.data.tokenizer.encode(references)

    @jax.jit
    def hidden(arrays: Any, tokens: jax.Array) -> jax.Array:
        return trained.trainer.structure.merge(*arrays).encode({"tokens": tokens})["hidden"]

    tokens = np.zeros((len(read), max(map(len, read))), np.int32)
    for row, ids in enumerate(read):
        tokens[row, : len(ids)] = ids
    states = np.asarray(hidden(trained.model(), tokens), np.float64)
    weights = weights_of(trained, read, written)
    return float(np.mean([context_distance(w @ h[: w.shape[1]]) for w, h in zip(weights, states, strict=True)]))


def measure(*, workdir: Path, seed: int, longest: int, examples: int | None = None) -> dict[str, Any]:
    """Measures a trained run on (`examples`) test sentences of at most `longest` tokens.

    Returns "bleu_whole", "bleu_zero_start" and "bleu_shared_context"; the shares of BLEU that the two interventions
    remove, "start_share" and "context_share"; and "context_distance".
    """
    del seed
    trained = Trained(workdir)
    sources, references = trained.data.text("test")
    lengths = [len(ids) for ids in trained.data.tokenizer.encode(sources)]
    chosen = [i for i in sample(len(sources), examples) if lengths[i] <= longest]
    sources, references = [sources[i] for i in chosen], [references[i] for i in chosen]
    parameters, _ = trained.model()
    cases: dict[str, dict[str, Any]] = {
        "whole": {}, "zero_start": {"around": ZeroStart}, "shared_context": {"parameters": shared_context(parameters)},
    }  # fmt: skip
    bleu = {
        f"bleu_{name}": corpus_bleu(translate(trained, sources, longest=longest, **change), references)[0]
        for name, change in cases.items()
    }
    share = lambda name: 1 - bleu[f"bleu_{name}"] / bleu["bleu_whole"] if bleu["bleu_whole"] else None
    shares = {"start_share": share("zero_start"), "context_share": share("shared_context")}
    distance = mean_context_distance(trained, sources[:_PAIRS], references[:_PAIRS])
    return {**bleu, **shares, "context_distance": distance}
