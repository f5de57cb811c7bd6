"""T5, Raffel et al. 2020, and T5 1.1: pre-norm RMSNorm, no biases, relative biases in each stack, unscaled attention.

The first version ties its embedding table: it embeds with the table and computes the logits hidden D^-0.5 table^T. Our
`shared_with_bias` embeds with sqrt(D) table and computes the logits hidden table^T. The two are equal if every row of
our table is divided by sqrt(D). Version 1.1 has a separate output matrix without the factor. A version 1.1 model that
Transformers 5 created without a separate output is saved tied and without the factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.errors import ConfigError
from attention_research.weights.tensors import Entry, refuse_others, transposed

#: Transformers computes other logits for a decoder alone.
EXPECTED: dict[str, Any] = {"is_encoder_decoder": True}
#: feed_forward_proj -> our feed-forward.
FEED_FORWARDS = {
    "relu": {"kind": "dense", "activation": "relu"},
    "gated-gelu": {"kind": "gated", "activation": "gelu"},
}
#: feed_forward_proj -> the settings that it implies. Transformers computes with those of config.json, if there are any.
IMPLIED = {
    "relu": {"dense_act_fn": "relu", "is_gated_act": False},
    "gated-gelu": {"dense_act_fn": "gelu_new", "is_gated_act": True},
}
#: T5 has no table of positions, so this is the length of its pre-training.
LENGTH = 512
SUBLAYERS = {"encoder": ("self_attention", "feed_forward"),
             "decoder": ("self_attention", "cross_attention", "feed_forward")}  # fmt: skip
ATTENTIONS = {"self_attention": "SelfAttention", "cross_attention": "EncDecAttention"}
DATA: dict[str, Any] = {"kind": "text", "name": "reviews/imdb", "objective": {"kind": "span_corruption"}}
TASK = "text_to_text"


def model(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], int]:
    """(the model section of the config, the largest length)."""
    theirs = folder.config
    refuse_others(folder, tensors, {f"{side}.embed_tokens.weight": "shared.weight" for side in SUBLAYERS})
    kind = theirs.get("feed_forward_proj", "relu")
    if kind not in FEED_FORWARDS:
        expected = f"expected one of {', '.join(FEED_FORWARDS)}"
        raise ConfigError(f"{folder.path / 'config.json'}: feed_forward_proj is {kind!r}; {expected}")
    for key, implied in IMPLIED[kind].items():
        if (found := theirs.get(key, implied)) != implied:
            expected = f"expected that of feed_forward_proj {kind!r}, {implied!r}"
            raise ConfigError(f"{folder.path / 'config.json'}: {key} is {found!r}; {expected}")
    pre_norm = lambda side: {"steps": tuple(("norm", one, "dropout", "residual") for one in SUBLAYERS[side]),
                             "num_layers": layers(folder)[side], "final_norm": True}  # fmt: skip
    return {
        "kind": "transformer",
        "num_layers": theirs["num_layers"],
        "width": theirs["d_model"],
        "num_heads": theirs["num_heads"],
        "head_width": theirs["d_kv"],
        "dropout_rate": theirs["dropout_rate"],
        "self_attention": {
            "kind": "t5",
            "use_bias": False,
            "num_buckets": theirs["relative_attention_num_buckets"],
            "max_distance": theirs.get("relative_attention_max_distance", 128),
        },
        "feed_forward": {
            **FEED_FORWARDS[kind], "hidden_width": theirs["d_ff"], "use_bias": False,
        },
        "norm": {"kind": "rms_norm", "epsilon": theirs["layer_norm_epsilon"]},
        "positions": {"kind": "none"},
        "vocabulary": {"kind": _vocabulary(folder, tensors)},
        "encoder": pre_norm("encoder"),
        "decoder": {**pre_norm("decoder"), "cross_attention": {"kind": "unscaled", "use_bias": False}},
    }, LENGTH  # fmt: skip


def data(tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The data section of the config."""
    return DATA


def layers(folder: CheckpointFolder) -> dict[str, int]:
    """The number of layers of each stack."""
    both = folder.config["num_layers"]
    return {"encoder": both, "decoder": folder.config.get("num_decoder_layers") or both}


def entries(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> list[Entry]:
    """The entries of all our arrays."""
    numbering, root = folder.numbering, np.float32(folder.config["d_model"] ** -0.5)
    gated = folder.config.get("feed_forward_proj") == "gated-gelu"
    kind, silent = _vocabulary(folder, tensors), lambda table: numbering.bias()
    embedded = np.float32(1) if kind == "unscaled" else root  # the others multiply embeddings by sqrt(D)
    found = [Entry("vocabulary.table", "shared.weight", lambda table: numbering.rows(table) * embedded)]
    if kind == "untied":
        factor = root if _scaled(folder) else np.float32(1)
        kernel = lambda table: numbering.rows(table).T * factor
        found.append(Entry("vocabulary.output_kernel", "lm_head.weight", kernel))
        found.append(Entry("vocabulary.output_bias", "lm_head.weight", silent))
    else:
        found.append(Entry("vocabulary.bias", "shared.weight", silent))
    hidden = (("gate", "wi_0"), ("hidden", "wi_1")) if gated else (("hidden", "wi"),)
    for side, sublayers in SUBLAYERS.items():
        shared = "shared" if side == "encoder" else "self_shared"
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found.append(Entry(f"{side}.{shared}.table", bias))
        found.append(Entry(f"{side}.final_norm.scale", f"{side}.final_layer_norm.weight"))
        for number, (sublayer, norm) in enumerate(zip(sublayers, ("norm", "norm_2", "norm_3"), strict=False)):
            ours, theirs = f"{side}.stack.segments.0", f"{side}.block.{{}}.layer.{number}"
            found.append(Entry(f"{ours}.{norm}.scale", f"{theirs}.layer_norm.weight"))
            if sublayer in ATTENTIONS:
                parts = [(part, f"{ATTENTIONS[sublayer]}.{part[0]}") for part in ("query", "key", "value", "output")]
            else:
                parts = [(part, f"DenseReluDense.{name}") for part, name in (*hidden, ("output", "wo"))]
            for part, name in parts:
                found.append(Entry(f"{ours}.{sublayer}.{part}.kernel", f"{theirs}.{name}.weight", transposed))
    return found


def _scaled(folder: CheckpointFolder) -> bool:
    """Whether the logits are scaled by D^-0.5."""
    tied = folder.config.get("tie_word_embeddings") is not False
    return folder.config.get("scale_decoder_outputs", tied)


def _vocabulary(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> str:
    head, table = tensors.get("lm_head.weight"), tensors.get("shared.weight")
    if head is not None and (table is None or not np.array_equal(head, table)):
        return "untied"
    return "shared_with_bias" if _scaled(folder) else "unscaled"
