"""Measurements of the studies of monotonic attention on a trained recurrent model.

They are the delay (`monotonic`), whether online decoding changes the output, how the attention moves
(`analysis.alignments`), and the loss with hard stops against the expected loss: a monotonic model is trained in
expectation over its stops and used with hard stops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.analysis import alignments
from attention_research.analysis.alignment_figure import as_map
from attention_research.data import generated_translation
from attention_research.models.sequences import sequence
from attention_research.tasks.evaluation import corpus_bleu
from attention_research.tokens import PAD
from attention_research.training.evaluation import Trained

from .monotonic import delays, online, positions

MONOTONIC = ("monotonic", "mocha")
#: The number of source tokens of a sample for a figure, with the end-of-sentence symbol.
SAMPLE = range(9, 14)


def measure_reading(*, workdir: Path, seed: int, examples: int = 256, batch_size: int = 64) -> dict[str, Any]:
    """Measures `examples` sentences of the evaluation split, and returns a `sample` of them for a figure.

    For all models: `bleu` of the output; `average_lag` and `written_before_the_end` (a model that is not monotonic
    waits for the end); `monotone_steps` and `diagonality` of the attention under teacher forcing; on a generated set
    also the scores against its gold alignment.

    For monotonic models: `online_equal`, the share of sentences with the same output in online decoding; `energies`,
    the number of energies in online decoding for each source and target token; `hard_loss` and `soft_loss`, the loss of
    a target token with hard stops and in expectation; `mode_difference`, the largest difference between the recursive
    and the parallel form.
    """
    del seed
    trained = Trained(Path(workdir))
    split, model = trained.evaluation.split, trained.model()
    decoder = trained.config.resolved["model"]["decoder"]
    monotonic = decoder["alignment"]["kind"] in MONOTONIC
    programs = _Programs(trained)
    batches = [(ids[ids >= 0], batch) for ids, batch in trained.data.evaluation_batches(split, batch_size, examples)]
    written: dict[int, list[int]] = {}
    stops: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    sources: list[np.ndarray] = []
    alike = read = tokens = 0
    for ids, batch in batches:
        rows, source = len(ids), batch["source"]
        decoded = np.asarray(programs.write(model, batch))
        written |= dict(zip(ids.tolist(), decoded.tolist(), strict=False))
        where = np.full(decoded.shape, source.shape[1], np.int32)  # after the end the whole source is read
        if monotonic:
            again, where, reads = map(np.asarray, programs.write_online(model, batch))
            alike += int(np.sum(np.all(again[:rows] == decoded[:rows], axis=1)))
            sizes = np.maximum(1, np.sum(decoded != PAD, axis=1))
            read += int(np.take_along_axis(reads, sizes[:, None] - 1, axis=1)[:rows].sum())
            tokens += int(np.sum(source[:rows] != PAD) + np.sum(decoded[:rows] != PAD))
        stops += list(where[:rows])
        targets += list(decoded[:rows])
        sources += list(source[:rows])
    measured: dict[str, Any] = delays(stops, targets, sources)
    if monotonic:
        measured |= {"online_equal": alike / len(written), "energies": read / tokens}
        measured |= programs.losses(model, batches)
    texts = trained.data.text(split)
    hypotheses = trained.data.tokenizer.decode(list(written.values()))
    measured["bleu"] = corpus_bleu(hypotheses, [texts[1][example] for example in written])[0]
    measured |= _attention(trained, split, examples, batch_size)
    known = {name: value for name, value in measured.items() if not math.isnan(value)}
    return known | {"sample": _sample(programs, model, batches)}


def _attention(trained: Trained, split: str, examples: int, batch_size: int) -> dict[str, float]:
    """Measures how the attention moves over the references, and compares it with gold alignments if there are any."""
    maps = dict(alignments.of_split(trained, split, examples, batch_size))
    if not trained.data.name.startswith("generated_translation/"):
        return alignments.described(list(maps.values()))
    gold = generated_translation.gold(trained.data.name, split)
    return alignments.against_gold(list(maps.values()), [gold[example] for example in maps])


def _sample(programs: _Programs, model: Any, batches: list[tuple[np.ndarray, Mapping[str, Any]]]) -> dict[str, Any]:
    """Returns the first sentence of a suitable length with its output and the weights (`alignment_figure`)."""
    for ids, batch in batches:
        lengths = np.sum(batch["source"][: len(ids)] != PAD, axis=1)
        for row in np.flatnonzero(np.isin(lengths, SAMPLE)):
            one = {"source": batch["source"][row : row + 1]}
            target = np.asarray(programs.write(model, one))
            size = max(1, int(np.sum(target != PAD)))
            weights = programs.weights(model, {**one, "target": target})[0, :size, : lengths[row]]
            source = one["source"][0, : lengths[row]]
            return as_map(programs.trained.data.tokenizer, source, target[0, :size].tolist(), weights)
    return {}


class _Programs:
    """The compiled functions of the model, which take (parameters, batch)."""

    def __init__(self, trained: Trained):
        self.trained = trained
        merge, length = trained.trainer.structure.merge, trained.config.resolved["max_length"]

        def write(model: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
            return trained.decoding(merge(*model), sequence(batch, "source"), max_length=length).tokens[:, 0]

        def write_online(model: Any, batch: Mapping[str, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
            reader, source = online(merge(*model)), sequence(batch, "source")
            tokens = trained.decoding(reader, source, max_length=length).tokens[:, 0]
            return tokens, *positions(reader, source, tokens)

        def weights(model: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
            return merge(*model).log_likelihood(batch)[1]["decoder"]["alignment"]

        def compared(model: Any, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
            found, maps = {}, {}
            for test, mode in (("hard", "recursive"), ("soft", "recursive"), ("soft", "parallel")):
                merged = merge(*model)
                merged.decoder.alignment.test, merged.decoder.alignment.mode = test, mode
                values, aux = merged.log_likelihood(batch)
                found[f"{test}_{mode}"] = -jnp.sum(values["log_likelihood"], where=values["mask"])
                maps[test, mode] = jnp.where(values["mask"][..., None], aux["decoder"]["alignment"], 0.0)
            apart = jnp.max(jnp.abs(maps["soft", "recursive"] - maps["soft", "parallel"]))
            return {**found, "apart": apart, "tokens": jnp.sum(values["mask"])}

        self.write, self.write_online = jax.jit(write), jax.jit(write_online)
        self.weights, self.compared = jax.jit(weights), jax.jit(compared)

    def losses(self, model: Any, batches: list[tuple[np.ndarray, Mapping[str, Any]]]) -> dict[str, float]:
        """Computes `hard_loss`, `soft_loss` and `mode_difference` (see `measure_reading`)."""
        results = [jax.device_get(self.compared(model, batch)) for _, batch in batches]
        tokens = sum(int(one["tokens"]) for one in results)
        mean = lambda name: math.fsum(float(one[name]) for one in results) / tokens
        return {
            "hard_loss": mean("hard_recursive"),
            "soft_loss": mean("soft_recursive"),
            "mode_difference": max(float(one["apart"]) for one in results),
        }
