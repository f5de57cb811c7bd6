"""How close attention maps are to low rank, before and after training (Wang et al. 2020, arXiv 2006.04768, figure 1).

The singular values of a map are sorted in descending order. "rank" is the share of them that makes up 90 % of their
sum: 0.9 for a map whose singular values are all equal, and near 0 for a map of rank one. Measured are runs of ours and
an imported checkpoint (`weights`), each compared with the same model before training, because the spectra of random
maps are skewed too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from attention_research.analysis.attention import layer_weights
from attention_research.analysis.example_maps import example_maps
from attention_research.analysis.spectra import mean_spectrum, rank_for
from attention_research.analysis.teacher_forced import untrained
from attention_research.data import sources
from attention_research.data.hugging_face import HuggingFaceTokenizer
from attention_research.tokens import BOS
from attention_research.training.evaluation import Trained
from attention_research.weights import load
from attention_research.weights.packaged import folder_of

PLACE = ("encoder", "self_attention")
Maps = Iterable[Float[np.ndarray, "L N T T"]]


def described(trained: Maps, initial: Maps) -> dict[str, Any]:
    """Describes the spectra of trained and of initial maps.

    "ranks" and "initial_ranks" are by layer, averaged over heads. "curves" and "initial_curves" are by layer over
    shares of the singular values. "rank" and "initial_rank" are means over layers; "first" and "last" are those of the
    first and the last layer.
    """
    found: dict[str, Any] = {}
    for prefix, maps in (("", trained), ("initial_", initial)):
        curves = mean_spectrum(maps)
        ranks = np.apply_along_axis(rank_for, 2, curves).mean(axis=1)
        found[f"{prefix}ranks"], found[f"{prefix}rank"] = ranks.tolist(), float(ranks.mean())
        found[f"{prefix}curves"] = curves.mean(axis=1).round(5).tolist()
    return {**found, "first": found["ranks"][0], "last": found["ranks"][-1]}


def measure_trained(*, workdir: Path, seed: int, examples: int, **_: Any) -> dict[str, Any]:
    """Computes `described` for the encoder of a run on its test split, before and after training."""
    del seed
    trained = Trained(workdir)
    maps = lambda arrays: (one for _, one in example_maps(trained, PLACE, arrays, examples=examples, batch_size=8))
    return described(maps(None), maps(untrained(trained)))


def measure_imported(*, checkpoint: str, examples: int, length: int, text: str, seed: int, **_: Any) -> dict[str, Any]:
    """Computes `described` for an imported encoder on the first tokens of test texts that are long enough.

    Arrays that are not in the checkpoint are initialized as in `train`.
    """
    loaded = load(folder_of(checkpoint))
    tokenizer = loaded.tokenizer()
    rows = jnp.asarray(list(_rows(tokenizer, text, examples, length)), jnp.int32)

    @jax.jit
    def maps(parameters: Any, tokens: jax.Array) -> jax.Array:
        memory = loaded.structure.merge(parameters).encode({"tokens": tokens[None]})
        return layer_weights({"encoder": memory["aux"]})[PLACE][:, 0]

    of = lambda parameters: (np.asarray(maps(parameters, row)) for row in rows)
    return described(of(loaded.parameters), of(loaded.drawn(seed)))


def _rows(tokenizer: HuggingFaceTokenizer, text: str, examples: int, length: int) -> Iterator[list[int]]:
    """Yields the first `length` tokens of texts; the first token is BOS."""
    sources.prepare(text)
    documents, found = sources.open_split(text, "test"), 0
    for number in range(len(documents)):
        (tokens,) = tokenizer.encode([documents[number]["text"]])
        if len(tokens) >= length and found < examples:
            found += 1
            yield [BOS, *tokens][:length]
        if found == examples:
            return
