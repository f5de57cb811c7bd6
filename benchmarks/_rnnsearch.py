"""RNNsearch for `benchmarks/recurrent.py`: a training step and greedy decoding, in our code and in PyTorch, with equal
weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

VOCABULARY, RATE = 8000, 1e-3


def tokens(batch: int, length: int) -> tuple[Any, Any]:
    """Source and target token ids [B T], without padding, so that PyTorch does not need packed sequences."""
    import numpy as np

    return tuple(np.random.default_rng(0).integers(4, VOCABULARY, (2, batch, length)).astype(np.int32))


def trainer(batch: int, length: int, width: int) -> Any:
    """Our model, built from a config like every experiment. It has GRU cells, which PyTorch has too."""
    from attention_research.config import resolve
    from attention_research.training.trainer import Trainer

    model = {
        "kind": "recurrent",
        "width": width,
        "embedding_width": width,
        "cell": {"kind": "gru"},
        "encoder": {"kind": "bidirectional"},
        "decoder": {"kind": "bahdanau", "readout_width": width // 2},
        "alignment": {"kind": "global", "score": {"kind": "additive", "attention_width": width}},
    }
    batching = {"kind": "buckets", "boundaries": (length,)}
    data = {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en", "batching": batching}
    training = {
        "steps": 1000,
        "batch_size": batch,
        "learning_rate": RATE,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "constant"},
    }
    sizes = {"max_length": length, "vocabulary_size": VOCABULARY, "task": {"label_smoothing": 0.0}}
    return Trainer(resolve({**sizes, "data": data, "model": model, "training": training}))


def our_calls(batch: int, length: int, width: int) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """({"step": performs an update and returns its loss, "greedy": returns tokens [B T]}, initial parameters)."""
    import jax
    import numpy as np

    from attention_research.decoding import Greedy
    from attention_research.tokens import EOS

    run = trainer(batch, length, width)
    held = {"state": run.execution.start()}
    first = jax.device_get(held["state"]["parameters"])
    source, target = tokens(batch, length)
    placed = run.execution.place({"source": source, "target": target})
    decode = Greedy(extra_length=length)
    greedy = jax.jit(
        lambda p, source: decode(run.structure.merge(p), {"tokens": source}, max_length=length).tokens[:, 0]
    )
    endless = jax.device_put({**first, "vocabulary.output_bias": without_end(first["vocabulary.output_bias"], EOS)})

    def step() -> float:
        held["state"], metrics = run.execution.step(held["state"], placed)
        jax.block_until_ready(held["state"])
        return float(metrics["loss"])

    return {"step": step, "greedy": lambda: np.asarray(greedy(endless, source))}, first


def without_end(bias: Any, end: int) -> Any:
    """The output bias with padding, start and end made improbable, so that all forms decode up to the last position."""
    import numpy as np

    return np.where(np.arange(len(bias)) <= end, np.float32(-1e4), bias)


def torch_calls(parameters: dict[str, Any], batch: int, length: int) -> dict[str, Callable[[], Any]]:
    """The calls of `our_calls` in eager PyTorch."""
    import torch

    from attention_research.tokens import EOS

    from ._torch_rnnsearch import RNNsearch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_flush_denormal(True)
    model = RNNsearch(parameters)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    source, target = (torch.from_numpy(ids).long() for ids in tokens(batch, length))
    bias = without_end(parameters["vocabulary.output_bias"], EOS)
    endless = RNNsearch({**parameters, "vocabulary.output_bias": bias})

    def step() -> float:
        optimizer.zero_grad()
        loss = model(source, target)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return {"step": step, "greedy": lambda: endless.greedy(source, length).numpy()}
