"""GPT-2, Radford et al. 2019: pre-norm decoder, learned positions, GELU (tanh), tied embeddings without scaling."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.weights.activations import activation
from attention_research.weights.tensors import Entry, norm, refuse_others

#: Settings of config.json that change the equations -> the only supported value.
EXPECTED = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False,
            "tie_word_embeddings": True}  # fmt: skip
PRE_NORM = tuple(("norm", layer, "dropout", "residual") for layer in ("self_attention", "feed_forward"))
DATA: dict[str, Any] = {"kind": "text", "name": "reviews/imdb", "objective": {"kind": "language_model"}}
TASK = "text_to_text"


def model(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], int]:
    """(the model section of the config, the largest length). Raises ConfigError for an output matrix of its own."""
    refuse_others(folder, tensors, {"lm_head.weight": f"{_start(tensors)}wte.weight"})
    theirs = folder.config
    width = theirs["n_embd"]
    return {
        "kind": "transformer_decoder",
        "num_layers": theirs["n_layer"],
        "width": width,
        "num_heads": theirs["n_head"],
        "dropout_rate": theirs["resid_pdrop"],
        "feed_forward": {
            "kind": "dense",
            "hidden_width": theirs.get("n_inner") or 4 * width,
            "activation": activation(folder, "activation_function"),
        },
        "norm": {"kind": "layer_norm", "epsilon": theirs["layer_norm_epsilon"]},
        "positions": {"kind": "learned"},
        "vocabulary": {"kind": "unscaled"},
        "decoder": {"steps": PRE_NORM, "final_norm": True},
    }, theirs["n_positions"]


def data(tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The data section of the config."""
    return DATA


def layers(folder: CheckpointFolder) -> dict[str, int]:
    """The number of layers of each stack."""
    return {"decoder": folder.config["n_layer"]}


def entries(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> list[Entry]:
    """The entries of all our arrays. GPT-2 has Conv1D kernels [in out], with queries, keys and values concatenated."""
    start = _start(tensors)
    ours, theirs = "decoder.stack.segments.0", f"{start}h.{{}}"
    found = [
        Entry("vocabulary.table", f"{start}wte.weight", folder.numbering.rows),
        Entry("vocabulary.bias", f"{start}wte.weight", lambda table: folder.numbering.bias()),
        Entry("decoder.positions.table", f"{start}wpe.weight"),
        *norm("decoder.final_norm", f"{start}ln_f"),
        *norm(f"{ours}.norm", f"{theirs}.ln_1"),
        *norm(f"{ours}.norm_2", f"{theirs}.ln_2"),
    ]
    for part, number in (("query", 0), ("key", 1), ("value", 2)):
        third = partial(_third, number)
        found.append(Entry(f"{ours}.self_attention.{part}.kernel", f"{theirs}.attn.c_attn.weight", third))
        found.append(Entry(f"{ours}.self_attention.{part}.bias", f"{theirs}.attn.c_attn.bias", third))
    for name, other in (
        ("self_attention.output", "attn.c_proj"), ("feed_forward.hidden", "mlp.c_fc"),
        ("feed_forward.output", "mlp.c_proj"),
    ):  # fmt: skip
        found += [Entry(f"{ours}.{name}.kernel", f"{theirs}.{other}.weight")]
        found += [Entry(f"{ours}.{name}.bias", f"{theirs}.{other}.bias")]
    return found


def _start(tensors: Mapping[str, np.ndarray]) -> str:
    """The beginning of their names, which a file without a head leaves out."""
    return "transformer." if any(name.startswith("transformer.") for name in tensors) else ""


def _third(number: int, x: np.ndarray) -> np.ndarray:
    return np.split(x, 3, axis=-1)[number]
