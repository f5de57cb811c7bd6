"""Cross-attention of the decoder while it generates the phonemes of a word: heat maps, and a page of the first word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_research.analysis import attention_file
from attention_research.studies.figures import Figure, heat_maps
from attention_research.studies.results import Results

#: The file name of the page of the first word, in the folder of the trial.
PAGE = "attention.html"


def measure_words(*, workdir: Path, seed: int, words: Sequence[str], **_: Any) -> dict[str, Any]:
    """Returns "maps" of a trained run: the cross-attention of its last layer for each word, averaged over heads.

    Rows are the phonemes that the run generates, columns the letters. Also writes the attention page of the first word.
    """
    # Planning imports this file and must work without JAX.
    from attention_research.analysis.attention import of_sentence
    from attention_research.training.evaluation import Trained

    del seed
    trained, maps = Trained(workdir), []
    for number, word in enumerate(words):
        attention = of_sentence(trained, " ".join(word), workdir.name)
        (cross,) = (one for one in attention.passes[0].maps if one.title == "cross-attention")
        weights = cross.weights[-1].mean(axis=0)
        maps.append({"source": list(cross.keys), "target": list(cross.queries), "weights": weights.tolist()})
        if number == 0:
            attention_file.write(workdir / PAGE, attention)
    return {"maps": maps}


def draw_words(results: Results, folder: Path) -> Figure | None:
    """Draws the map of the first word for each row, from the first seed of the row."""
    maps = []
    for row in results.rows:
        (found,) = results.values(row.id, "measure.maps")[:1] or [None]
        if found:
            maps.append({**found[0], "title": row.name})
    return heat_maps(results, folder / "attention.png", maps, "cross-attention of the last layer, mean over heads")
