"""Measurements of the naming studies: scores of a run, copy tables of held-out functions, and scores of a baseline."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.config import build_experiment, resolve
from attention_research.tasks.naming import naming_scores
from attention_research.tokens import PAD
from attention_research.training.evaluation import Trained

from . import copy_table

#: The paper's example, `{ this.useBrowserCache = useBrowserCache; }`, in Python.
PRINTED = ("the printed example in Python", "self . use browser cache = use browser cache", "set use browser cache")


def scores_of(workdir: Path) -> dict[str, Any]:
    """Returns the scores of a run's evaluation."""
    document = json.loads((Path(workdir) / "evaluation.json").read_text(encoding="utf-8"))
    return {name: value for name, value in document.items() if isinstance(value, int | float) and name != "seconds"}


def copy_tables(workdir: Path, count: int = 3) -> list[dict[str, Any]]:
    """Returns tables (`copy_table.CopyTable.to_json`) of the paper's example and of `count` held-out functions, each
    with the name that the model generates.

    The functions are not chosen by hand. They are evenly spaced, by id, among the evaluated functions whose true name
    has one sub-token that is in the body and one that is not, and whose body has at most 40 sub-tokens.
    """
    trained = Trained(Path(workdir))
    chosen = [PRINTED, *_held_out(trained, count)]
    tokenizer, model = trained.data.tokenizer, trained.model()
    length = max(len(ids) for ids in tokenizer.encode([body for _, body, _ in chosen]))
    source = _padded(tokenizer.encode([body for _, body, _ in chosen]), length)
    merge = trained.trainer.structure.merge
    search = jax.jit(lambda model, batch: trained.evaluation.outputs(merge(*model), batch))
    collect = jax.jit(lambda model, batch: copy_table.collect(merge(*model), batch))
    suggested = jax.device_get(search(model, {"source": jnp.asarray(source), "target": jnp.asarray(source[:, :8])}))
    first = np.argmax(suggested["lengths"] > 1, axis=1)  # without the empty name, as in the scores
    written = np.take_along_axis(suggested["tokens"], first[:, None, None], axis=1)[:, 0]
    target = spelled(written, source, trained.config.resolved["vocabulary_size"])
    found = jax.device_get(collect(model, {"source": jnp.asarray(source), "target": jnp.asarray(target)}))
    tables = []
    for row, (place, _, name) in enumerate(chosen):
        words = tokenizer.pieces([*source[row], *target[row]])
        of_row = {key: value[row] for key, value in found.items()}
        tables.append(copy_table.table_of(place, words, name, source[row], target[row], of_row).to_json())
    return tables


def spelled(written: np.ndarray, source: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """Returns the word ids of an output. The id vocabulary_size + s is replaced by the id of the source word at s."""
    positions = np.clip(written - vocabulary_size, 0, source.shape[1] - 1)
    return np.where(written >= vocabulary_size, np.take_along_axis(source, positions, axis=1), written).astype(np.int32)


def nearest_scores(workdir: Path) -> dict[str, Any]:
    """Computes `naming_scores` of the names of the nearest bodies, on the functions that the configuration evaluates.

    It is for a trial that trains nothing; the configuration is read from the trial.
    """
    given = json.loads((Path(workdir) / "trial.json").read_text(encoding="utf-8"))["given"]
    parts = build_experiment(resolve(given))
    data, evaluation = parts.data().prepare(), parts.evaluation()
    batches = data.evaluation_batches(evaluation.split, evaluation.batch_size, examples=evaluation.examples)
    ids = [int(i) for ids, _ in batches for i in ids if i >= 0]
    bodies, names = data.text(evaluation.split)
    cut = lambda body: " ".join(body.split()[: data.max_length - 1])
    known, named = data.text("train")
    found = nearest_names(known, named, [cut(bodies[i]) for i in ids], evaluation.suggestions)
    return naming_scores(found, [names[i] for i in ids], data.tokenizer.known)


def _held_out(trained: Trained, count: int) -> Sequence[tuple[str, str, str]]:
    data, evaluation = trained.data, trained.evaluation
    batches = data.evaluation_batches(evaluation.split, evaluation.batch_size, examples=evaluation.examples)
    ids = sorted(int(i) for ids, _ in batches for i in ids if i >= 0)
    functions = data.functions(evaluation.split)
    both = lambda one: 0 < len(set(one.name.split()) & set(one.body.split())) < len(set(one.name.split()))
    fitting = [functions[i] for i in ids if both(functions[i]) and len(functions[i].body.split()) <= 40]
    return [tuple(fitting[place]) for place in np.linspace(0, len(fitting) - 1, count).astype(int)] if fitting else []


def _padded(rows: Sequence[Sequence[int]], length: int) -> np.ndarray:
    ids = np.full((len(rows), length), PAD, np.int32)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = tokens
    return ids


def nearest_names(bodies: Sequence[str], names: Sequence[str], asked: Sequence[str], count: int = 5) -> list[list[str]]:
    """For each body in `asked`, returns up to `count` different names of the nearest bodies by TF-IDF, nearest first.

    This is the baseline of Allamanis, Peng & Sutton 2016, section 4. The paper only says "tf-idf". Here a body is the
    vector of (1 + log count) log(N / functions with the sub-token) (the weights of Salton & Buckley 1988), and nearness
    is the cosine. Of equally near bodies the earlier one comes first. A body that shares no sub-token with any other
    gets the names of the first bodies.
    """
    postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, body in enumerate(bodies):
        for word, times in Counter(body.split()).items():
            postings[word].append((number, 1.0 + math.log(times)))
    rarity = {word: math.log(len(bodies) / len(places)) for word, places in postings.items()}
    arrays = {
        word: (np.array([n for n, _ in places]), np.array([weight for _, weight in places]) * rarity[word])
        for word, places in postings.items()
    }
    squares = np.zeros(len(bodies))
    for places, weights in arrays.values():
        squares[places] += weights**2
    lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
    return [_names(body, arrays, rarity, lengths, names, count) for body in asked]


def _names(body: str, arrays: dict, rarity: dict, lengths: np.ndarray, names: Sequence[str], count: int) -> list[str]:
    similarity = np.zeros(len(lengths))
    for word, times in Counter(body.split()).items():
        if word in arrays:
            places, weights = arrays[word]
            similarity[places] += weights * (1.0 + math.log(times)) * rarity[word]
    found: dict[str, None] = {}
    for number in np.argsort(-similarity / lengths, kind="stable"):
        found.setdefault(names[number])
        if len(found) == count:
            break
    return list(found)
