"""Marian, Junczys-Dowmunt et al. 2018, as in OPUS-MT: post-norm, sinusoids in two halves, tied embeddings with a logit
bias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.errors import ConfigError
from attention_research.layers.positions.sinusoidal_halves import sinusoidal_halves
from attention_research.weights.activations import activation
from attention_research.weights.tensors import Entry, dense, norm, refuse_others

EXPECTED = {"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True}
SIDES = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}
#: The default data. A folder does not name its languages: for others, override data.name and the languages.
DATA: dict[str, Any] = {
    "kind": "pairs",
    "name": "bible_translate/fr-en",
    "source_language": "fr",
    "target_language": "en",
    "batching": {"kind": "buckets", "boundaries": (32, 64)},
}
TASK = "translation"
#: The largest error of a sinusoid that was stored in 16 bits.
ROUNDING = 0.005


def model(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], int]:
    """(the model section of the config, the largest length). Raises ConfigError for a second table, and for positions
    that are not sinusoids."""
    theirs = folder.config
    copies = ("lm_head.weight", *(f"model.{side}.embed_tokens.weight" for side in SIDES))
    refuse_others(folder, tensors, dict.fromkeys(copies, "model.shared.weight"))
    sinusoids = np.asarray(sinusoidal_halves(theirs["max_position_embeddings"], theirs["d_model"]))
    for name in (f"model.{side}.embed_positions.weight" for side in SIDES):
        found = tensors.get(name, sinusoids)
        if found.shape != sinusoids.shape or not np.allclose(found, sinusoids, rtol=0, atol=ROUNDING):
            raise ConfigError(f"{folder.path}: tensor {name} differs from sinusoids, which ours has")
    act = activation(folder, "activation_function")

    def side(name: str) -> dict[str, Any]:
        feed_forward = {"kind": "dense", "hidden_width": theirs[f"{name}_ffn_dim"], "activation": act}
        attention = {"kind": "standard", "num_heads": theirs[f"{name}_attention_heads"]}
        return {"num_layers": theirs[f"{name}_layers"], "feed_forward": feed_forward, "self_attention": attention}

    encoder, decoder = side("encoder"), side("decoder")
    return {
        "kind": "transformer",
        "num_layers": theirs["encoder_layers"],
        "width": theirs["d_model"],
        "num_heads": theirs["encoder_attention_heads"],
        "dropout_rate": theirs["dropout"],
        "norm": {"kind": "layer_norm", "epsilon": 1e-5},
        "positions": {"kind": "sinusoidal_halves"},
        "vocabulary": {"kind": "shared_with_bias" if theirs["scale_embedding"] else "unscaled"},
        "feed_forward": encoder["feed_forward"],
        "encoder": encoder,
        "decoder": {**decoder, "cross_attention": decoder["self_attention"]},
    }, theirs["max_position_embeddings"]


def data(tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The data section of the config."""
    return DATA


def layers(folder: CheckpointFolder) -> dict[str, int]:
    """The number of layers of each stack."""
    return {side: folder.config[f"{side}_layers"] for side in SIDES}


def entries(folder: CheckpointFolder, tensors: Mapping[str, np.ndarray]) -> list[Entry]:
    """The entries of all our arrays. A checkpoint without a logit bias gets zeros."""
    numbering = folder.numbering
    biased = "final_logits_bias" in tensors
    bias = (lambda x: numbering.bias(x[0])) if biased else (lambda table: numbering.bias())
    found = [
        Entry("vocabulary.table", "model.shared.weight", numbering.rows),
        Entry("vocabulary.bias", "final_logits_bias" if biased else "model.shared.weight", bias),
    ]
    for side, norms in SIDES.items():
        ours, theirs = f"{side}.stack.segments.0", f"model.{side}.layers.{{}}"
        for attention, name in (("self_attention", "self_attn"), ("cross_attention", "encoder_attn")):
            for part, short in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")):
                found += dense(f"{ours}.{attention}.{part}", f"{theirs}.{name}.{short}_proj") if name in norms else []
        found += dense(f"{ours}.feed_forward.hidden", f"{theirs}.fc1")
        found += dense(f"{ours}.feed_forward.output", f"{theirs}.fc2")
        for place, name in zip(("norm", "norm_2", "norm_3"), norms, strict=False):
            found += norm(f"{ours}.{place}", f"{theirs}.{name}_layer_norm")
    return found
