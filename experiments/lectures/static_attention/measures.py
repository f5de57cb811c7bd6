"""Measurements of text classifiers: accuracy with fewer texts, weights of terms, bags of words, pre-trained embeddings,
and one word in two contexts.

Each function is for a `measure` stage: it reads the folder of a trial and returns a flat dict. JAX is imported inside
the functions, so that a study can be loaded without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.config import Config, build_experiment, resolve

#: The word whose vector is shown in two contexts, and these contexts.
WORD, CONTEXTS = "fun", ("this film is fun and great", "this film is no fun and a bore")


def _config(workdir: Path) -> Config:
    """Returns the config of a trial, which may be untrained."""
    return resolve(json.loads((workdir / "trial.json").read_text(encoding="utf-8"))["given"])


def fewer_texts(*, workdir: Path, sizes: Sequence[int], steps: int, **settings: Any) -> dict[str, Any]:
    """Returns the results of `evaluate` and the accuracies with fewer training texts."""
    from . import classifiers

    full = json.loads((workdir / "evaluation.json").read_text(encoding="utf-8"))
    found = {name: full[name] for name in ("accuracy", "macro_f1")}
    return found | {f"accuracy_{n}": classifiers.on_fewer(_config(workdir), n, steps)["accuracy"] for n in sizes}


def weights(*, workdir: Path, seed: int, terms: int, kept: bool = False, **settings: Any) -> dict[str, Any]:
    """Measures the correlation of the weights of terms with IDF and with their mutual information with the label.

    With `kept` it also returns the weights of the most frequent terms and, for seed 0, the data of the figures.
    """
    from attention_research.training.evaluation import Trained

    from . import classifiers

    trained = Trained(workdir)
    read = classifiers.read_terms(trained)
    found = {name: read.pop(name) for name in ("idf_correlation", "bits_correlation")}
    if kept:
        found["weight_of"] = dict(zip(read["word"][:terms], read["weight"][:terms], strict=True))
    if kept and seed == 0:
        found["terms"] = {name: values[:terms] for name, values in read.items()}
        found["speaking"] = classifiers.speaking_terms(trained)
        found["marked"] = classifiers.marked_texts(trained)
    return found


def bag_of_words(*, workdir: Path, sizes: Sequence[int], terms: int, **settings: Any) -> dict[str, Any]:
    """Measures TF-IDF with logistic regression on the texts of the row, the information of terms by their IDF, and the
    difference of the IDF formula from scikit-learn's."""
    from attention_research.tasks.classification import confusion, macro_f1

    from . import classifiers, token_weights

    found: dict[str, Any] = {}
    for size in (*sizes, None):
        config = _config(workdir)
        config = config.override([("data.train_examples", size)]) if size else config
        parts = build_experiment(config)
        data, split = parts.data().prepare(), parts.evaluation().split
        outcome = classifiers.bag_of_words(data, split)
        counts = confusion(outcome["label"], outcome["predicted"], len(data.classes))
        found[f"accuracy_{size}" if size else "accuracy"] = 100.0 * float(np.trace(counts) / counts.sum())
    found["macro_f1"] = 100.0 * macro_f1(counts)
    texts, label, size = data.tokens("train"), data.labels("train"), data.vocabulary_size
    frequency = token_weights.document_frequency(texts, size)
    idf = token_weights.inverse_document_frequency(frequency, len(texts))
    kept = np.flatnonzero((frequency >= 10) & (np.arange(size) > 2))
    in_all = idf[frequency == len(texts)]  # every text has the end-of-sentence symbol
    found["idf_of_all_texts"] = float(np.abs(in_all).max()) if len(in_all) else None
    options = {"size": size, "classes": len(data.classes)}
    for name, function in (("text", token_weights.mutual_information), ("occurrence", token_weights.occurrence_bits)):
        bits = function(texts, label, **options)[kept]
        found[f"{name}_bits_correlation"] = token_weights.rank_correlation(idf[kept], bits)
        found[f"{name}_bits"] = token_weights.binned(idf[kept], bits, 8)
    found["formula_difference"] = classifiers.formula_difference(data)
    tops = token_weights.top_terms(np.where(frequency[:, None] >= 10, outcome["kernel"], 0.0), 10)
    found["speaking"] = {name: classifiers.words(data, top) for name, top in zip(data.classes, tops, strict=True)}
    return found


def make_embedding(*, workdir: Path, method: str, method_steps: int, **settings: Any) -> dict[str, Any]:
    """Writes the embedding table that the config of the row names, from the training texts, unless it exists."""
    from . import embeddings

    config = _config(workdir)
    file = Path(config.resolved["model"]["embedding"]["file"])
    if not file.exists():
        data, width = build_experiment(config).data().prepare(), config.resolved["model"]["width"]
        texts, size = data.tokens("train"), data.vocabulary_size
        if method == "lsa":
            table = embeddings.latent_semantic_analysis(texts, size, width)
        else:
            table = embeddings.skip_gram(texts, size, width, steps=method_steps)
        # Rows have unit variance, so that all methods start with vectors of the same length.
        table = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{os.getpid()}-{file.name}")
        np.save(part, table)
        os.replace(part, file)
    return {}


def moved(*, workdir: Path, seed: int, **settings: Any) -> dict[str, Any]:
    """For seed 0, projects a word's vector, alone and after X X^T in two contexts, on their two principal
    components."""
    from attention_research.training.evaluation import Trained

    from . import embeddings

    if seed:
        return {}
    trained = Trained(workdir)
    table = np.asarray(trained.trainer.structure.merge(*trained.model()).embedding.table[...])
    ids = [np.asarray(one[:-1]) for one in trained.data.tokenizer.encode([WORD, *CONTEXTS])]
    places = [int(np.flatnonzero(one == ids[0][0])[0]) for one in ids]
    context = [embeddings.in_context(table, one)[place] for one, place in zip(ids[1:], places[1:], strict=True)]
    others = sorted({int(token) for one in ids[1:] for token in one} - {int(ids[0][0])})
    _, _, projected = embeddings.principal_components(np.stack([table[ids[0][0]], *context, *table[others]]))
    names = [WORD, *CONTEXTS, *trained.data.tokenizer.decode([[one] for one in others])]
    return {"moved": [[name, *point] for name, point in zip(names, projected.round(4).tolist(), strict=True)]}


def scores(*, workdir: Path, **settings: Any) -> dict[str, Any]:
    """Returns the results of `evaluate`."""
    return fewer_texts(workdir=workdir, **{**settings, "sizes": ()})
