"""The attention weights of one sentence and its translation for every layer and head, as labelled NumPy arrays.

The weights are softmax(Q K^T / sqrt(H)) of Vaswani et al. 2017, equation 1, or those of the attention variant. The
model computes them in one teacher-forced pass over the source and its own translation. Row t of a decoder map belongs
to the position that generates token t. This position has read the tokens before it, beginning with the start of the
sentence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.errors import ConfigError, RunError
from attention_research.layers.structure import Structure
from attention_research.tokens import BOS, UNKNOWN
from attention_research.training.evaluation import Trained

_MARK = "\N{LOWER ONE EIGHTH BLOCK}"  # marks the start of a word in SentencePiece
#: The sequence of an axis -> the label of the axis.
AXES = {"source": "source tokens", "written": "tokens written", "read": "tokens read before"}
#: (part of the model, kind of attention) -> (title, rows, columns), in the order of the page.
PLACES = {
    ("decoder", "cross_attention"): ("cross-attention", "written", "source"),
    ("encoder", "self_attention"): ("encoder self-attention", "source", "source"),
    ("decoder", "self_attention"): ("decoder self-attention", "written", "read"),
    ("decoder", "wide_self_attention"): ("decoder wide self-attention", "written", "read"),
    ("decoder", "alignment"): ("alignment", "written", "source"),
}


@dataclasses.dataclass(frozen=True)
class AttentionMap:
    """One kind of attention with ``weights`` [L N T S] of the model. The weights of a query over its keys sum to 1."""

    title: str
    rows: str
    columns: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: np.ndarray


@dataclasses.dataclass(frozen=True)
class Attention:
    """The attention of one sentence: its text, its translation, the maps, and facts about the run."""

    source: str
    translation: str
    maps: tuple[AttentionMap, ...]
    facts: Mapping[str, str]


def of_sentence(trained: Trained, sentence: str, name: str) -> Attention:
    """Translates the sentence as `generate` does and collects the attention. `name` is the name of the run.

    Raises ConfigError if the model does not have attention between tokens.
    """
    source, target = trained.hypotheses([sentence])[0]
    structure, tokenizer = trained.trainer.structure, trained.data.tokenizer
    maps = attention_maps(structure, trained.model(), source, target, partial(labels, tokenizer))
    if not maps:
        kind = trained.config.resolved["model"]["kind"]
        raise ConfigError(f"--attention: this run's model, {kind}, has no attention between tokens")
    steps = ", ".join(f"{step:,}" for step in trained.averaged)
    averaged = {"mean": "mean of the checkpoints at steps", "best": "step of the lowest validation loss"}.get(
        trained.selection.name, "step"
    )
    facts = {"run": name, averaged: steps, "config": trained.config.hash}
    return Attention(sentence, tokenizer.decode([target])[0], maps, facts)


def attention_maps(
    structure: Structure,
    arrays: tuple[Any, Any],
    source: Sequence[int],
    target: Sequence[int],
    label: Callable[[Sequence[int]], list[str]],
) -> tuple[AttentionMap, ...]:
    """The maps of a model with these parameters and statistics, for one pair of sequences without padding.

    If the number of keys does not depend on the length of the sequence, the keys are not tokens but projections, as in
    Linformer, and they are labelled as projections. Raises RunError if weights are not finite.
    """
    batch_of = lambda s, t: {"source": jnp.asarray([s], jnp.int32), "target": jnp.asarray([t], jnp.int32)}
    weights = lambda arrays, batch: layer_weights(structure.merge(*arrays).log_likelihood(batch)[1])
    shorter = batch_of(*(tokens[:-1] if len(tokens) > 1 else [*tokens, UNKNOWN] for tokens in (source, target)))
    other_shapes = jax.eval_shape(weights, arrays, shorter)
    found = jax.device_get(jax.jit(weights)(arrays, batch_of(source, target)))
    names = {"source": label(source), "written": label(target), "read": label([BOS, *target[:-1]])}
    maps = []
    for (part, kind), (title, rows, columns) in PLACES.items():
        # A block that attends twice has "self_attention" and "self_attention_2".
        for place in sorted(place for place in found if place[0] == part and _kind(place[1]) == kind):
            array = np.asarray(found[place], np.float32)[:, 0]
            if not np.isfinite(array).all():
                raise RunError(f"{title}: the attention weights of this run are not finite; its training diverged")
            keys, keys_are = names[columns], AXES[columns]
            if other_shapes[place].shape[-1] == array.shape[-1]:
                keys = [f"projection {number}" for number in range(1, array.shape[-1] + 1)]
                keys_are = f"projections of the {AXES[columns]}"
            number = place[1].removeprefix(kind).replace("_", " ")
            maps.append(AttentionMap(title + number, AXES[rows], keys_are, tuple(names[rows]), tuple(keys), array))
    return tuple(maps)


def _kind(name: str) -> str:
    return name.rstrip("0123456789").removesuffix("_")


def layer_weights(collected: Mapping[str, Any]) -> dict[tuple[str, str], jax.Array]:
    """(part, child of its blocks) -> weights [L B N T S], from the aux of a forward pass.

    The alignment [B T S] of a recurrent decoder becomes one layer with one head.
    """
    found: dict[tuple[str, str], list[jax.Array]] = {}
    for part, segments in collected.items():
        if "alignment" in segments:
            found[part, "alignment"] = [segments["alignment"][None, :, None]]
        for number in range(len(segments)):
            for name, given in segments.get(f"segment_{number}", {}).items():
                if isinstance(given, Mapping) and "attention_weights" in given:
                    found.setdefault((part, name), []).append(given["attention_weights"])
    return {place: jnp.concatenate(layers) for place, layers in found.items()}


def labels(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    """Readable labels of tokens. A piece that continues a word has a · before it."""
    pieces = zip(tokens, tokenizer.pieces(tokens), strict=True)
    return [piece if token <= UNKNOWN else readable(piece) for token, piece in pieces]


def readable(piece: str) -> str:
    """A SentencePiece piece without its word mark, with a · if it continues a word. Punctuation does not count as a
    continuation.

    >>> [readable(piece) for piece in ("\N{LOWER ONE EIGHTH BLOCK}agree", "ment", ",", "\N{LOWER ONE EIGHTH BLOCK}")]
    ['agree', '·ment', ',', '␣']
    """
    text = piece.removeprefix(_MARK).replace(_MARK, "␣") or "␣"
    goes_on = not piece.startswith(_MARK) and any(character.isalnum() for character in piece)
    return f"·{text}" if goes_on else text
