"""The attention weights of a source and a text for every layer and head, as labelled NumPy arrays.

The weights are softmax(Q K^T / sqrt(H)) of Vaswani et al. 2017, equation 1, or those of the attention variant. The
model computes them in one teacher-forced pass over the source and the text. The text is the reference of the data or
the model's own output, and every pass says which. Row t of a decoder map belongs to the position that predicts token t
of the text. This position has read the tokens before it, beginning with the start of the sentence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.analysis import head_statistics
from attention_research.errors import ConfigError, RunError
from attention_research.layers.structure import Structure
from attention_research.tokens import BOS, PAD, UNKNOWN
from attention_research.training.evaluation import Trained

_MARK = "\N{LOWER ONE EIGHTH BLOCK}"  # marks the start of a word in SentencePiece
#: The text that the decoder reads: that of the data, or the output of the model.
REFERENCE, OUTPUT = "reference", "model output"
#: The same for a language model, whose output continues the first half of a text.
TEXT, CONTINUATION = "text", "continuation"
#: What a model without a decoder reads.
INPUT = "input"
#: The token sequences of a batch.
SIDES = ("source", "target")
#: (part of the model, kind of attention) -> (title, rows, columns), in the order of the page.
PLACES = {
    ("decoder", "cross_attention"): ("cross-attention", "text", "source"),
    ("encoder", "self_attention"): ("encoder self-attention", "source", "source"),
    ("decoder", "self_attention"): ("decoder self-attention", "text", "read"),
    ("decoder", "wide_self_attention"): ("decoder wide self-attention", "text", "read"),
    ("decoder", "alignment"): ("alignment", "text", "source"),
}


class Layers(NamedTuple):
    """The numbers of the layers that have a kind of attention weights, from 1, and how many layers the stack has."""

    numbers: tuple[int, ...]
    depth: int

    @property
    def whole(self) -> bool:
        """Whether every layer has weights of this kind."""
        return self.numbers == tuple(range(1, self.depth + 1))


@dataclasses.dataclass(frozen=True)
class AttentionMap:
    """One kind of attention with ``weights`` [L N T S] of the model.

    The weights of a query over its keys sum to 1 in most kinds. Those of some are not normalised (sigmoid), or may be
    negative (differential, talking heads). In a map over the source and then the text, the first `source_length`
    queries and keys are those of the source; in any other map it is 0.
    """

    title: str
    rows: str
    columns: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: np.ndarray
    layers: Layers
    source_length: int = 0

    @property
    def has_negative(self) -> bool:
        """Whether some weights are negative, so that they are no shares of the keys."""
        return head_statistics.has_negative(self.weights)


@dataclasses.dataclass(frozen=True)
class Pass:
    """One teacher-forced pass over a source (None: the model has none) and a text, and its maps.

    `of` is `REFERENCE`, `OUTPUT`, `TEXT`, `CONTINUATION` or `INPUT`. Passes of the same `example` have the same source.
    """

    of: str
    source: str | None
    text: str
    maps: tuple[AttentionMap, ...]
    example: int = 1

    @property
    def sentences(self) -> dict[str, str]:
        """Name -> text, of what was read."""
        return ({} if self.source is None else {"source": self.source}) | {self.of: self.text}


@dataclasses.dataclass(frozen=True)
class Attention:
    """The attention of one or more passes, and facts about the run."""

    passes: tuple[Pass, ...]
    facts: Mapping[str, str]


def of_sentence(trained: Trained, sentence: str, name: str) -> Attention:
    """Translates the sentence as `generate` does and collects the attention. `name` is the name of the run.

    Raises ConfigError if the model does not have attention between tokens.
    """
    source, target = trained.hypotheses([sentence])[0]
    structure, tokenizer = trained.trainer.structure, trained.data.tokenizer
    of = CONTINUATION if trained.continues else OUTPUT
    maps = attention_maps(structure, trained.model(), source, target, partial(labels, tokenizer), of)
    if not maps:
        kind = trained.config.resolved["model"]["kind"]
        raise ConfigError(f"--attention: this run's model, {kind}, has no attention between tokens")
    steps = ", ".join(f"{step:,}" for step in trained.averaged)
    averaged = {"mean": "mean of the checkpoints at steps", "best": f"step of the {trained.selection.by}"}.get(
        trained.selection.name, "step"
    )
    facts = {"run": name, averaged: steps, "config": trained.config.hash}
    return Attention((Pass(of, sentence, tokenizer.decode([target])[0], maps),), facts)


def forward_pass(structure: Structure) -> Callable[[tuple[Any, Any], Mapping[str, Any]], Mapping[str, Any]]:
    """The function (parameters and statistics, batch) -> the aux of a teacher-forced pass, for `layer_weights`."""
    return lambda arrays, batch: structure.merge(*arrays).log_likelihood(batch)[1]


def attention_maps(
    structure: Structure,
    arrays: tuple[Any, Any],
    source: Sequence[int],
    target: Sequence[int],
    label: Callable[[Sequence[int]], list[str]],
    of: str = OUTPUT,
) -> tuple[AttentionMap, ...]:
    """The maps of a model with these parameters and statistics, for one pair of sequences (`map_reader`)."""
    batch = {"source": np.asarray([source], np.int32), "target": np.asarray([target], np.int32)}
    return map_reader(structure, arrays, label)(batch, of)


def map_reader(
    structure: Structure, arrays: tuple[Any, Any], label: Callable[[Sequence[int]], list[str]]
) -> Callable[[Mapping[str, np.ndarray], str], tuple[AttentionMap, ...]]:
    """The function (batch of one row, whose text the target is) -> the maps, without padding.

    Keys that are not tokens (`are_projections`) are labelled as projections. The maps of a stack that reads the source
    and then the text have both on their axes. Raises RunError if weights are not finite.
    """
    collected = forward_pass(structure)
    weights = lambda arrays, batch: layer_weights(collected(arrays, batch))
    run = jax.jit(weights)

    def read(batch: Mapping[str, np.ndarray], of: str) -> tuple[AttentionMap, ...]:
        sides = {name: [int(token) for token in batch[name][0] if token != PAD] for name in SIDES if name in batch}
        other_shapes = jax.eval_shape(weights, arrays, of_other_length(batch))
        layers = layers_of(jax.eval_shape(collected, arrays, batch))
        found = jax.device_get(run(arrays, {name: jnp.asarray(x) for name, x in batch.items()}))
        source, target = sides.get("source", []), sides.get("target", [])
        before = int(batch["target_before"][0]) if "target_before" in batch else BOS
        names = {"source": label(source), "text": label(target), "read": label([before, *target[:-1]])}
        axes = {"source": "source tokens", "text": f"{of} tokens", "read": "tokens read before"}
        maps = []
        for (part, kind), (title, rows, columns) in PLACES.items():
            if not (names[rows] and names[columns] and (target or rows == "source")):  # such as attention over an image
                continue
            # A block that attends twice has "self_attention" and "self_attention_2".
            for place in sorted(
                place for place in found.keys() & other_shapes.keys() if place[0] == part and _kind(place[1]) == kind
            ):
                array = np.asarray(found[place], np.float32)[:, 0]
                queries, queries_are, keys, keys_are = names[rows], axes[rows], names[columns], axes[columns]
                before_text = 0
                if rows == "text" and reads_source_first(array.shape[2], batch):
                    padding = batch["source"].shape[1] - len(source)  # such a model moves the padding to the front
                    array = array[:, :, padding:, padding:]
                    queries, keys = [*names["source"], *queries], [*names["source"], *keys]
                    before_text = len(source)
                    queries_are, keys_are = f"source and {queries_are}", f"{axes['source']} and {keys_are}"
                elif are_projections(array.shape[-1], other_shapes[place].shape[-1], columns, batch):
                    keys = [f"projection {number}" for number in range(1, array.shape[-1] + 1)]
                    keys_are = f"projections of the {axes[columns]}"
                array = array[:, :, : len(queries), : len(keys)]
                if not np.isfinite(array).all():
                    raise RunError(f"{title}: the attention weights of this run are not finite; its training diverged")
                number = place[1].removeprefix(kind).replace("_", " ")
                texts = queries_are, keys_are, tuple(queries), tuple(keys)
                maps.append(AttentionMap(title + number, *texts, array, layers[place], before_text))
        return tuple(maps)

    return read


def reads_source_first(length: int, batch: Mapping[str, np.ndarray]) -> bool:
    """Whether maps with `length` queries come from a stack that reads the source and then the text of a batch."""
    lengths = [batch[name].shape[1] for name in SIDES if name in batch]
    return len(lengths) == len(SIDES) and all(lengths) and length == sum(lengths)


def are_projections(keys: int, others: int, columns: str, batch: Mapping[str, np.ndarray]) -> bool:
    """Whether the keys are not tokens. Then their number is the same for a batch of another length (`others`), as in
    Linformer, or smaller than the number of tokens, as in the memory of a Funnel encoder."""
    return keys == others or keys < batch["source" if columns == "source" else "target"].shape[1]


def of_other_length(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The batch with sequences of another length, for `are_projections`."""
    return {name: _other_length(x) if name in SIDES else x for name, x in batch.items()}


def _other_length(tokens: np.ndarray) -> np.ndarray:
    """The tokens [B T] with another T."""
    return tokens[:, :-1] if tokens.shape[1] > 1 else np.pad(tokens, ((0, 0), (0, 1)), constant_values=UNKNOWN)


def _kind(name: str) -> str:
    return name.rstrip("0123456789").removesuffix("_")


def layer_weights(collected: Mapping[str, Any]) -> dict[tuple[str, str], jax.Array]:
    """(part, child of its blocks) -> weights [L B N T S], from the aux of a forward pass.

    The alignment [B T S] of a recurrent decoder becomes one layer with one head. A place is left out if the maps of its
    layers have different sizes, as in a Funnel encoder.
    """
    found: dict[tuple[str, str], list[jax.Array]] = {}
    for part, segments in collected.items():
        if "alignment" in segments:
            found[part, "alignment"] = [segments["alignment"][None, :, None]]
        for segment in _segments(segments):
            for name, weights in _weights(segment).items():
                found.setdefault((part, name), []).append(weights)
    alike = {place: layers for place, layers in found.items() if len({layer.shape[1:] for layer in layers}) == 1}
    return {place: jnp.concatenate(layers) for place, layers in alike.items()}


def layers_of(collected: Mapping[str, Any]) -> dict[tuple[str, str], Layers]:
    """(part, child of its blocks) -> the layers of `layer_weights`, from the aux of a forward pass or its shapes."""
    found: dict[tuple[str, str], list[int]] = {}
    depths: dict[str, int] = {}
    for part, segments in collected.items():
        depths[part] = 0
        for segment in _segments(segments):
            first, depths[part] = depths[part], depths[part] + segment["hidden"].shape[0]
            for name in _weights(segment):
                found.setdefault((part, name), []).extend(range(first + 1, depths[part] + 1))
    layers = {(part, name): Layers(tuple(numbers), depths[part]) for (part, name), numbers in found.items()}
    alignments = {(part, "alignment"): Layers((1,), 1) for part, given in collected.items() if "alignment" in given}
    return {**layers, **alignments}


def _segments(collected: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The aux of the segments of a stack, in their order."""
    names = (f"segment_{number}" for number in range(len(collected)))
    return [collected[name] for name in names if name in collected]


def _weights(segment: Mapping[str, Any]) -> dict[str, jax.Array]:
    """Child of the blocks of a segment -> its weights."""
    given = {name: aux for name, aux in segment.items() if isinstance(aux, Mapping)}
    return {name: aux["attention_weights"] for name, aux in given.items() if "attention_weights" in aux}


def labels(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    """Readable labels of tokens. A piece that continues a word has a · before it, if the vocabulary marks words."""
    pieces = tokenizer.pieces(tokens)
    marked = any(piece.startswith(_MARK) for piece in pieces)
    return [piece if token <= UNKNOWN else readable(piece, marked) for token, piece in zip(tokens, pieces, strict=True)]


def readable(piece: str, marked: bool = True) -> str:
    """A piece without its mark, with a · if it continues a word. Punctuation does not count as a continuation.

    A WordPiece piece that continues a word begins with ##. If pieces are `marked`, as those of SentencePiece, all
    others begin with U+2581.

    >>> [readable(piece) for piece in ("\N{LOWER ONE EIGHTH BLOCK}agree", "ment", ",", "\N{LOWER ONE EIGHTH BLOCK}")]
    ['agree', '·ment', ',', '␣']
    >>> [readable(piece, marked=False) for piece in ("lamp", "##s", "a")]
    ['lamp', '·s', 'a']
    """
    if not marked:
        return f"·{piece[2:]}" if piece.startswith("##") and len(piece) > 2 else piece
    text = piece.removeprefix(_MARK).replace(_MARK, "␣") or "␣"
    goes_on = not piece.startswith(_MARK) and any(character.isalnum() for character in piece)
    return f"·{text}" if goes_on else text
