"""Where the decoder looks while it writes a word's sounds: a heat map of each word, and a page of the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_research.analysis import attention_file
from attention_research.studies.figures import Figure, heat_maps
from attention_research.studies.results import Results

#: The page of the first word, in the trial's folder.
PAGE = "attention.html"


def measure_words(*, workdir: Path, seed: int, words: Sequence[str], **_: Any) -> dict[str, Any]:
    """ "maps" of a trained run: the cross-attention of its last layer, averaged over the heads, for each word.

    Rows are the sounds that the run writes, columns the letters. Writes the attention page of the first word.
    """
    # Planning reads this file, and does without JAX.
    from attention_research.analysis.attention import of_sentence
    from attention_research.training.evaluation import Trained

    del seed
    trained, maps = Trained(workdir), []
    for number, word in enumerate(words):
        attention = of_sentence(trained, " ".join(word), workdir.name)
        (cross,) = (one for one in attention.maps if one.title == "cross-attention")
        weights = cross.weights[-1].mean(axis=0)
        maps.append({"source": list(cross.keys), "target": list(cross.queries), "weights": weights.tolist()})
        if number == 0:
            attention_file.write(workdir / PAGE, attention)
    return {"maps": maps}


def draw_words(results: Results, folder: Path) -> Figure | None:
    """The first word's map in each row, of the row's first seed."""
    maps = []
    for row in results.rows:
        (found,) = results.values(row.id, "measure.maps")[:1] or [None]
        if found:
            maps.append({**found[0], "title": row.name})
    return heat_maps(results, folder / "attention.png", maps, "last layer's cross-attention, mean of the heads")
