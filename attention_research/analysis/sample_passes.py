"""The attention over some examples of a split, with the decoder reading the reference and then the model's own output.

A model with a decoder has two passes for each example. The first pass of a language model reads the text of the data.
Its second pass reads the first half of the first sentence and the model's continuation. A model without a decoder has
one pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from attention_research.analysis.attention import (
    CONTINUATION,
    INPUT,
    OUTPUT,
    REFERENCE,
    SIDES,
    TEXT,
    AttentionMap,
    Pass,
    labels,
    map_reader,
)
from attention_research.models.protocol import Generates
from attention_research.tokens import EOS, PAD
from attention_research.training.evaluation import Trained

#: A map is cut after this number of tokens of each text, since the figure and the page label every token.
LONGEST = 48
#: The number of examples.
EXAMPLES = 3
#: No further example is added once the maps hold more weights than this.
MOST_WEIGHTS = 300_000
#: Outputs are padded to a multiple of this length, so that few programs are compiled.
_MULTIPLE = 16

Row = dict[str, np.ndarray]


def sample_passes(trained: Trained, *, split: str, examples: int) -> list[Pass]:
    """The passes of up to `EXAMPLES` examples of a sample: the one of median length, then a shorter and a longer one.

    Their texts are cut after `LONGEST` tokens. Their maps are not cut (see `shortened`). The list is empty if the model
    has no attention between tokens.
    """
    label = partial(labels, trained.data.tokenizer)
    read = map_reader(trained.trainer.structure, trained.model(), label)
    found: list[Pass] = []
    for number, row in enumerate(_rows(trained, split, examples), start=1):
        if sum(shortened(one).weights.size for each in found for one in each.maps) > MOST_WEIGHTS:
            break
        for of, batch in _readings(trained, row):
            maps = read(batch, of)
            if not maps:
                return []
            shown = {name: _text(trained, batch[name][0]) for name in SIDES if name in batch}
            source = shown.get("source") if of in (REFERENCE, OUTPUT) else None
            found.append(Pass(of, source, shown["source" if of == INPUT else "target"], maps, number))
    return found


def _rows(trained: Trained, split: str, examples: int) -> Iterator[Row]:
    """A batch of one row for each chosen example. Examples with fewer than two tokens are not chosen."""
    rows: list[Row] = []
    for ids, batch in trained.data.evaluation_batches(split, min(32, examples), examples=examples):
        for number in np.flatnonzero(np.asarray(ids) >= 0):
            row = {name: np.asarray(x)[number : number + 1] for name, x in batch.items()}
            if _length(row) > 1:
                rows.append(row)
    rows.sort(key=_length)
    chosen = dict.fromkeys(len(rows) * quarter // 4 for quarter in (2, 1, 3))
    yield from (rows[number] for number in [*chosen][:EXAMPLES] if number < len(rows))


def _length(row: Row) -> int:
    return max((int((row[name] != PAD).sum()) for name in SIDES if name in row), default=0)


def _readings(trained: Trained, row: Row) -> Iterator[tuple[str, Mapping[str, np.ndarray]]]:
    """(the origin of the text, such as `REFERENCE`; batch) of each pass over an example."""
    model = trained.trainer.parts.model.target
    if trained.continues:
        yield TEXT, row
        tokens = [int(token) for token in row["target"][0][:LONGEST] if token != PAD]
        first = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
        prompt = [*first[: max(1, len(first) // 2)], EOS]
        yield CONTINUATION, {"target": _padded(trained, trained.decoded([prompt])[0])}
    elif issubclass(model, Generates) and "target" in row and {"source", "image"} & row.keys():
        yield REFERENCE, row
        if "image" in row:
            source = {"image": row["image"]}
            (output,) = trained.captions(row["image"])
        else:
            source = {"source": row["source"]}
            (output,) = trained.decoded([[int(token) for token in row["source"][0] if token != PAD]])
        yield OUTPUT, {**source, "target": _padded(trained, output)}
    else:
        yield INPUT, row


def _padded(trained: Trained, tokens: list[int]) -> np.ndarray:
    """The tokens as one row [1 T], padded to a length that the model can read."""
    length = max(len(tokens), min(-(-len(tokens) // _MULTIPLE) * _MULTIPLE, trained.most_tokens()))
    return np.pad(np.asarray([tokens], np.int32), ((0, 0), (0, length - len(tokens))), constant_values=PAD)


def _text(trained: Trained, tokens: np.ndarray) -> str:
    """The tokens as text, cut like the displayed maps. A row of a language model may hold several sentences."""
    kept = [int(token) for token in tokens if token != PAD]
    shown = np.asarray(kept[:LONGEST])
    sentences = np.split(shown, np.flatnonzero(shown == EOS) + 1)
    texts = trained.data.tokenizer.decode([one.tolist() for one in sentences if one.size])
    return " ".join(texts) + (" …" if len(kept) > LONGEST else "")


def shortened(one: AttentionMap) -> AttentionMap:
    """The map of the first `LONGEST` tokens, for display; over the source and then the text, those of either."""
    rows, columns = shown_places(one)
    return dataclasses.replace(
        one,
        queries=tuple(one.queries[row] for row in rows),
        keys=tuple(one.keys[column] for column in columns),
        weights=one.weights[:, :, rows][..., columns],
        source_length=min(one.source_length, LONGEST),
    )


def shown_places(one: AttentionMap) -> tuple[np.ndarray, np.ndarray]:
    """The places of the queries and of the keys that `shortened` keeps."""
    rows, columns = (_first(len(names), one.source_length) for names in (one.queries, one.keys))
    return rows, columns


def _first(length: int, source: int) -> np.ndarray:
    """The first `LONGEST` of the `source` places and of those after them.

    >>> _first(100, 0).tolist() == [*range(48)], _first(100, 60).tolist() == [*range(48), *range(60, 100)]
    (True, True)
    """
    return np.concatenate([np.arange(source)[:LONGEST], np.arange(source, length)[:LONGEST]])
