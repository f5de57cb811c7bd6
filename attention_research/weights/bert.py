"""BERT, Devlin et al. 2019: post-norm encoder, learned positions with a norm, exact GELU, head with tied embeddings.

A checkpoint without the head of the masked language model (a sentence encoder) gets the plain tied table, because only
its hidden states are used. The vector of the first of BERT's two segments is added to the positions; the second segment
is not supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.errors import ConfigError
from attention_research.weights.activations import activation
from attention_research.weights.tensors import Entry, dense, norm, refuse_others

EXPECTED = {"position_embedding_type": "absolute", "is_decoder": False}
TASK = "text_to_text"
HEAD = "cls.predictions"


def model(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], int]:
    """(the model section of the config, the largest length). Raises ConfigError for a head with a table of its own, or
    with another activation than the exact GELU."""
    theirs = folder.config
    if _has_head(tensors) and theirs.get("tie_word_embeddings") is False:
        raise ConfigError(f"{folder.path / 'config.json'}: tie_word_embeddings is False; ours has True")
    if _has_head(tensors) and activation(folder, "hidden_act") != "gelu_exact":
        raise ConfigError(
            f"{folder.path / 'config.json'}: hidden_act is {theirs['hidden_act']!r}; the head of ours has gelu"
        )
    if _has_head(tensors):
        table = f"{_start(tensors)}embeddings.word_embeddings.weight"
        copies = {f"{HEAD}.decoder.weight": table, f"{HEAD}.decoder.bias": f"{HEAD}.bias"}
        refuse_others(folder, tensors, copies)
    return {
        "kind": "transformer_encoder",
        "num_layers": theirs["num_hidden_layers"],
        "width": theirs["hidden_size"],
        "num_heads": theirs["num_attention_heads"],
        "dropout_rate": theirs["hidden_dropout_prob"],
        "feed_forward": {
            "kind": "dense",
            "hidden_width": theirs["intermediate_size"],
            "activation": activation(folder, "hidden_act"),
        },
        "norm": {"kind": "layer_norm", "epsilon": theirs["layer_norm_eps"]},
        "positions": {"kind": "learned_normed"},
        "vocabulary": {"kind": "bert" if _has_head(tensors) else "unscaled"},
    }, theirs["max_position_embeddings"]


def data(tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The data section. Without a head no token is masked, and there is no loss."""
    hidden = {} if _has_head(tensors) else {"noise_density": 0.0}
    return {"kind": "text", "name": "reviews/imdb", "objective": {"kind": "masked_tokens", "begins": True, **hidden}}


def layers(folder: CheckpointFolder) -> dict[str, int]:
    """The number of layers of each stack."""
    return {"encoder": folder.config["num_hidden_layers"]}


def entries(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> list[Entry]:
    """The entries of all our arrays."""
    start = _start(tensors)
    ours, theirs, numbering = "encoder.stack.segments.0", f"{start}encoder.layer.{{}}", folder.numbering
    first = tensors.get(f"{start}embeddings.token_type_embeddings.weight", np.zeros((1, 1), np.float32))[0]
    found = [
        Entry("vocabulary.table", f"{start}embeddings.word_embeddings.weight", numbering.rows),
        Entry("encoder.positions.table", f"{start}embeddings.position_embeddings.weight", lambda table: table + first),
        *norm("encoder.positions.norm", f"{start}embeddings.LayerNorm"),
        *norm(f"{ours}.norm", f"{theirs}.attention.output.LayerNorm"),
        *norm(f"{ours}.norm_2", f"{theirs}.output.LayerNorm"),
        *dense(f"{ours}.self_attention.output", f"{theirs}.attention.output.dense"),
        *dense(f"{ours}.feed_forward.hidden", f"{theirs}.intermediate.dense"),
        *dense(f"{ours}.feed_forward.output", f"{theirs}.output.dense"),
    ]
    for part in ("query", "key", "value"):
        found += dense(f"{ours}.self_attention.{part}", f"{theirs}.attention.self.{part}")
    if not _has_head(tensors):
        silent = lambda table: numbering.bias()
        return [*found, Entry("vocabulary.bias", f"{start}embeddings.word_embeddings.weight", silent)]
    found.append(Entry("vocabulary.bias", f"{HEAD}.bias", numbering.bias))
    found += dense("vocabulary.transform", f"{HEAD}.transform.dense")
    return [*found, *norm("vocabulary.norm", f"{HEAD}.transform.LayerNorm")]


def _start(tensors: Mapping[str, np.ndarray]) -> str:
    """The beginning of their names, which a file without a head leaves out."""
    return "bert." if any(name.startswith("bert.") for name in tensors) else ""


def _has_head(tensors: Mapping[str, np.ndarray]) -> bool:
    return f"{HEAD}.transform.dense.weight" in tensors
