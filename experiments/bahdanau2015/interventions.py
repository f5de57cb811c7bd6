"""What a trained recurrent translator loses when a part of what it was given is taken away while it translates.

Two things a decoder has of its source: the state that it starts from, and the context of each step. Without its start
(zeros) a decoder with attention can still look; with one shared context (every source position weighted alike) it
still gets the source, but the same at every step.
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
    """A model for decoding whose recurrent decoder starts from zeros; all else is the given model's."""

    def __init__(self, model: Any):
        self.encode, self.step, self._model = model.encode, model.step, model

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The model's cache with its layers' states at 0."""
        cache = self._model.start(memory, length)
        layers = jax.tree.map(jnp.zeros_like, cache["state"]["layers"])
        return {**cache, "state": {**cache["state"], "layers": layers}}


def shared_context(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with those of the alignment's score at 0: all scores are 0, and the softmax weighs every real
    position alike, so that the context is the same at every step (global alignments)."""
    return {name: jnp.zeros_like(x) if ".alignment." in name else x for name, x in parameters.items()}


def context_distance(contexts: Float[np.ndarray, "T D"]) -> float:
    """Mean distance between the contexts of two steps, as a share of a context's mean length; 0 when all are equal."""
    if len(contexts) < 2:
        return 0.0
    apart = np.linalg.norm(contexts[:, None] - contexts[None], axis=-1)
    length = np.linalg.norm(contexts, axis=1).mean()
    return float(apart[~np.eye(len(contexts), dtype=bool)].mean() / length) if length else 0.0


def mean_context_distance(trained: Trained, sources: Sequence[str], references: Sequence[str]) -> float:
    """The mean of `context_distance` over sentence pairs, the decoder reading the references."""
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
    """Of a trained run, on the test sentences of at most `longest` tokens (of `examples` of them): "bleu_whole",
    "bleu_zero_start" and "bleu_shared_context", what each takes away as a share of the whole ("start_share",
    "context_share"), and "context_distance"."""
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
