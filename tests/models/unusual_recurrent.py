"""Recurrent encoder-decoders, copying models and captioners with settings away from the defaults.

`CASES` has the section of each small model. `test_unusual_recurrent.py` requires that every kind of the families of
`parts` is in one of them, and that every setting of every kind has a value other than its default in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attention_research import registry
from attention_research.config import resolution, schema
from attention_research.models.protocol import Generates
from attention_research.registry import FAMILIES

V, MOST = 11, 17
ROOT = {"max_length": MOST, "vocabulary_size": V, "side": 6, "channels": 3}
#: Families that only these models have. A model with one of them that generates text is one of these models.
OWN = ("recurrent_cell", "image_features")
#: Child sections whose kinds other tests cover: parts of Transformers and networks of images.
ELSEWHERE = (
    "attention", "encoder_attention", "causal_attention", "cross_attention", "feed_forward", "norm", "positions",
    "vocabulary", "residual", "layout", "stack", "encoder_convolution", "causal_convolution", "image_gate", "shortcut",
    "initialization",
)  # fmt: skip
#: Families whose kinds are here, and whose settings other tests cover.
KINDS_ONLY = ("encoder", "decoder")

_SIZES = {"width": 7, "embedding_width": 5, "num_layers": 2, "dropout_rate": 0.3}
_RECURRENT = {"kind": "recurrent", **_SIZES}
_TWICE = {"kind": "bidirectional", "width": 4, "num_layers": 2, "residual": True}
_ADDITIVE = {"kind": "additive", "attention_width": 3}
_RANK = {"kind": "reduced_rank", "attention_width": 3, "scaled": True}

CELLS = {**{kind: {"kind": kind} for kind in FAMILIES["recurrent_cell"]}, "lstm_forget_bias": {
    "kind": "lstm_forget_bias", "forget_bias": -2.0,
}}  # fmt: skip
SCORES = {
    **{kind: {"kind": kind} for kind in FAMILIES["score"]},
    "additive": _ADDITIVE, "reduced_rank": _RANK, "concat": {"kind": "concat", "source_is_identity": True},
}  # fmt: skip
#: Windows and tables that are shorter than a source, and longer.
ALIGNMENTS = {
    **{f"score-{kind}": {"kind": "global", "score": score} for kind, score in SCORES.items()},
    "local_monotonic": {"kind": "local_monotonic", "half_width": 1, "score": "dot"},
    "local_monotonic-wide": {"kind": "local_monotonic", "half_width": 40, "score": _ADDITIVE},
    "local_predictive": {"kind": "local_predictive", "half_width": 2, "score": "cosine"},
    "local_predictive-wide": {"kind": "local_predictive", "half_width": 40, "score": _RANK},
    "location": {"kind": "location", "max_length": 3},
    "monotonic": {"kind": "monotonic", "attention_width": 3, "noise": 0.5, "offset": 0.2},
    "monotonic-soft": {"kind": "monotonic", "noise": 0.0, "offset": 1.5, "test": "soft", "mode": "parallel"},
    "mocha": {"kind": "mocha", "chunk_size": 3, "score": "scaled_dot", "attention_width": 3, "offset": 0.4},
    "mocha-soft": {
        "kind": "mocha", "chunk_size": 40, "score": _RANK, "noise": 2.0, "test": "soft", "mode": "parallel",
    },
    "last_state": {"kind": "last_state"},
    "none": {"kind": "none"},
}  # fmt: skip
#: One score is enough for the decoders after the first.
PLACES = {name: one for name, one in ALIGNMENTS.items() if name == "score-additive" or not name.startswith("score")}


def _captioner(**section: Any) -> dict[str, Any]:
    sizes = {**_SIZES, "num_layers": 1}
    return {
        "kind": "recurrent_captioner", **sizes, "features": {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1},
        **section,
    }  # fmt: skip


def _transformer(**section: Any) -> dict[str, Any]:
    return {
        "kind": "transformer_captioner", "width": 8, "num_heads": 2, "head_width": 5, "num_layers": 2,
        "dropout_rate": 0.3, "feed_forward": {"hidden_width": 5}, "norm": "rms_norm", "vocabulary": "untied",
        "self_attention": {"kind": "standard", "num_key_value_heads": 1, "value_head_width": 3},
        "positions": "learned", "features": {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1}, **section,
    }  # fmt: skip


_COPYING = {"width": 5, "dropout_rate": 0.3}
#: Windows shorter than a source, longer than it, and of one word.
_CONVOLUTIONAL = (
    ("conv_attention", "vanilla", (4, 1, 9)), ("conv_attention", "rcnn", (1, 1, 1)),
    ("copy_attention", "lstm", (1, 1, 1)), ("copy_attention", "lstm_forget_bias", (2, 3, 4)),
    ("copy_attention", "gru", (9, 9, 9)), ("copy_attention", "gru_reset_before", (1, 6, 2)),
    ("copy_attention", "vanilla", (2, 1, 1)), ("copy_attention", "rcnn", (4, 1, 9)),
)  # fmt: skip
_IMAGE_ALIGNMENTS = {
    **{f"score-{kind}": {"kind": "global", "score": SCORES[kind]} for kind in ("additive", "concat", "dot")},
    **{f"hard-{kind}": {"kind": "hard", "score": SCORES[kind]} for kind in ("cosine", "reduced_rank")},
    "sca": {"kind": "sca", "attention_width": 3},
    "last_state": {"kind": "last_state"},
}  # fmt: skip
#: Encoders of the Transformer captioner, over 9 cells.
_ENCODERS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "funnel": {"blocks": 2},
    "evolved": {"num_layers": 1},
    "perceiver": {"num_latents": 4},
    "slots": {"num_slots": 3},
}

CASES: dict[str, dict[str, Any]] = {
    **{f"cell-{kind}": {
        **_RECURRENT, "num_layers": 3, "cell": cell, "encoder": {"residual": True}, "decoder": {"residual": True},
        "vocabulary": {"use_bias": False},
    } for kind, cell in CELLS.items()},
    **{f"luong-{name}": {
        **_RECURRENT, "width": 8, "alignment": alignment, "encoder": {"kind": "bidirectional", "width": 4},
        "cell": "gru", "decoder": {"kind": "luong", "start": "encoder_state"},
    } for name, alignment in ALIGNMENTS.items()},
    **{f"at_once-{name}": {
        **_RECURRENT, "width": 8, "alignment": alignment, "encoder": {"kind": "unidirectional", "num_layers": 1},
        "decoder": {"kind": "luong", "input_feeding": False, "start": "projected"},
        "vocabulary": {"source_vocabulary_size": V + 2},
    } for name, alignment in PLACES.items()},
    **{f"bahdanau-{name}": {
        **_RECURRENT, "alignment": alignment, "encoder": {**_TWICE, "cell": "lstm_forget_bias"}, "reverse_source": True,
        "decoder": {"kind": "bahdanau", "readout_width": 3, "width": 8, "cell": "rcnn", "dropout_rate": 0.2},
    } for name, alignment in PLACES.items() if name != "none"},
    **{f"start-{start}": {
        **_RECURRENT, "width": 8, "encoder": {**_TWICE, "cell": "rcnn", "num_layers": 1}, "cell": "rcnn",
        "decoder": {"kind": "bahdanau", "readout_width": 3, "start": start},
    } for start in FAMILIES["decoder_start"]},
    **{f"fixed_vector-{start}": {
        **_RECURRENT, "width": 8, "encoder": {**_TWICE, "num_layers": 3, "cell": "rcnn"}, "cell": "gru_reset_before",
        "decoder": {
            "kind": "fixed_vector", "residual": True, "context_every_step": True, "start": start, "num_layers": 3,
        },
    } for start in FAMILIES["decoder_start"]},
    "fixed_vector-no_context": {
        **_RECURRENT, "encoder": {"kind": "unidirectional", "width": 9, "num_layers": 1, "dropout_rate": 0.2},
        "reverse_source": True,
        "decoder": {"kind": "fixed_vector", "start": "projected", "cell": "rcnn", "num_layers": 1},
    },
    "fixed_vector-backward": {
        **_RECURRENT, "encoder": {**_TWICE, "cell": "lstm"}, "decoder": {"kind": "fixed_vector", "start": "projected"},
    },
    "fixed_vector-no_source": {**_RECURRENT, "decoder": {"kind": "fixed_vector", "start": "zeros"}},
    **{f"latent-{transition}-{name}": {
        "kind": "latent_alignment", **_SIZES, "width": 8, "transition": transition, "cell": cell, "score": SCORES[name],
        "start": start, "encoder": {**_TWICE, "cell": "lstm"} if start != "zeros" else {"kind": "unidirectional"},
        "vocabulary": {"use_bias": False, "source_vocabulary_size": V + 2},
    } for transition in FAMILIES["alignment_transition"]
      for name, cell, start in (("additive", "lstm", "encoder_state"), ("cosine", "gru", "projected"),
                                ("concat", "rcnn", "zeros"))},
    **{f"{kind}-{cell}": {
        "kind": kind, **_COPYING, "first_maps": 3, "windows": windows, "cell": {**CELLS[cell], "width": 6},
    } for kind, cell, windows in _CONVOLUTIONAL},
    **{f"pointer_generator-{cell}": {
        "kind": "pointer_generator", **_COPYING, "copies": number % 3 != 1, "coverage": number % 3 != 2,
        "cell": {**CELLS[cell], "width": 6},
    } for number, cell in enumerate(CELLS)},
    **{f"caption-{name}": _captioner(
        alignment=alignment, width=6, cell=("lstm", "rcnn")[number % 2],
        decoder={"start": "zeros"} if number % 3 else {},
    ) for number, (name, alignment) in enumerate(_IMAGE_ALIGNMENTS.items())},
    **{f"caption-cell-{kind}": _captioner(
        width=9, cell=cell, alignment={"kind": "global", "score": "general"}, decoder={"dropout_rate": 0.2, "width": 8},
    ) for kind, cell in CELLS.items() if not kind.startswith("lstm")},
    **{f"caption-fixed_vector-{start}": _captioner(num_layers=3, cell="gru", decoder={
        "kind": "fixed_vector", "residual": True, "context_every_step": context, "start": start,
    }) for start, context in (("projected", False), ("zeros", True))},
    "caption-frozen": _captioner(
        features={"kind": "cnn", "width": 6, "num_layers": 4, "halvings": 1, "frozen": True}, embedding_width=None,
    ),
    "caption-resnet": _captioner(features={
        "kind": "resnet", "width": 2, "depth": 14, "unroll": True, "shortcut": "projection", "gate": "spatial",
    }),
    "caption-mobilenet_v2": _captioner(features={"kind": "mobilenet_v2", "stride": 8, "frozen": False}),
    **{f"transformer-{kind}": _transformer(encoder={"kind": kind, **settings})
       for kind, settings in _ENCODERS.items()},
    "transformer-decoder": _transformer(
        decoder={"kind": "evolved", "wide_self_attention": {"num_heads": 4, "head_width": 3}},
        self_attention="relative_bias", positions="none",
    ),
}  # fmt: skip
#: Kinds that no case has, and the message that refuses them.
REFUSED = {("encoder", "transparent"): "transparent gives a state for each layer of a decoder"}
#: Case -> the beginnings of the names of parameters that nothing reads, by the definition of the model.
UNUSED = {
    # The summary, from which the decoder starts, is the backward state at the first word.
    "fixed_vector-backward": ("encoder.forward.1.",),
    # Without attention and without a start, the decoder is a language model.
    "fixed_vector-no_source": ("encoder.", "vocabulary.source_table"),
    # At this stride, the picture is one cell, whose weight is 1 with any scores.
    "caption-mobilenet_v2": ("decoder.alignment.score.",),
}
#: The ends of the names of parameters that add the same number to all scores of a query.
CANCELLED = (".key.bias", "slot_norm.bias")


def resolved(name: str, **changed: Any) -> dict[str, Any]:
    """The section of a case with the defaults and the inherited settings."""
    return resolution.resolved_section({**CASES[name], **changed}, "model", ROOT)


def models() -> list[str]:
    """The kinds of these models."""
    texts = [kind for kind in FAMILIES["model"] if issubclass(registry.lookup("model", kind), Generates)]
    return [kind for kind in texts if {*OWN} & {*_below("model", kind)}]


def parts() -> dict[str, list[str]]:
    """Family -> kinds of everything that these models are made of, without `ELSEWHERE`."""
    found = {"model": models()}
    for kind in found["model"]:
        found |= {family: [*FAMILIES[family]] for family in _below("model", kind) if family not in ELSEWHERE}
    return found


def _below(family: str, kind: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The families of the child sections of a kind and of all kinds below them."""
    children = {one.family for one in schema.signature(family, kind).values() if one.section} - seen - {*ELSEWHERE}
    below = [_below(child, one, seen | children) for child in children for one in FAMILIES[child]]
    return children.union(*below)


def sections(family: str, section: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(family, section) of a resolved section and of all sections below it."""
    yield family, section
    for name, setting in schema.signature(family, section["kind"]).items():
        if setting.section and not setting.many and section[name] is not None:
            yield from sections(setting.family, section[name])
