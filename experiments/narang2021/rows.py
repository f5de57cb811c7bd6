"""The rows of Narang et al. 2021, Table 1, as changes of its baseline (configs/text_to_text/narang2021.py).

Each follows the released configuration as it ran; where that differs from the paper's words, a row outside the table,
"... as written", follows the words. Sizes are those of the paper; a scale below it has its own (`table1.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Overrides = dict[str, Any]
#: Width of a gated feed-forward beside the baseline's 3,072: two of its three matrices are as wide.
PLAIN, GATED = 3072, 2048
SELF, CROSS, FORWARD = "self_attention", "cross_attention", "feed_forward"


def activation(kind: str) -> Overrides:
    """max(0, x W1) and its kin."""
    return {"model.feed_forward.activation": kind}


def gated(kind: str) -> Overrides:
    """(act(x W + b) * (x V + c)) W2 + b2."""
    return {"model.feed_forward": {"kind": "gated", "hidden_width": GATED, "activation": kind}}


def both(**settings: Any) -> Overrides:
    """The same in the encoder's section and in the decoder's."""
    return {f"model.{side}.{name}": value for side in ("encoder", "decoder") for name, value in settings.items()}


def branches(*around: str) -> Overrides:
    """Steps of every branch, "*" where its layer stands."""
    layers = {"encoder": (SELF, FORWARD), "decoder": (SELF, CROSS, FORWARD)}
    return {
        f"model.{side}.steps": tuple(tuple(layer if step == "*" else step for step in around) for layer in of_side)
        for side, of_side in layers.items()
    }


def joined(residual: str, *around: str, final: bool) -> Overrides:
    """Another residual, with these steps around each layer."""
    return {**both(residual={"kind": residual}, final_norm=final), **branches(*around)}


def depth(layers: int, hidden: int, heads: int) -> Overrides:
    """As many parameters in another shape."""
    return {"model.num_layers": layers, "model.feed_forward.hidden_width": hidden, "model.num_heads": heads}


def shared(*sides: str, vocabulary: str = "t5_untied_output") -> Overrides:
    """One layer's weights for all of these stacks."""
    stacks = {f"model.{side}.stack": {"kind": "shared"} for side in sides}
    return {**stacks, "model.vocabulary": {"kind": vocabulary}}


def vocabulary(kind: str, **settings: Any) -> Overrides:
    """What embeds and what gives the logits."""
    return {"model.vocabulary": {"kind": kind, **settings}}


def adaptive_softmax(*widths: int) -> Overrides:
    """The head, two tails, and the sentinels; a tail sees a quarter of a row's positions."""
    sizes = (2500, 6000, 23500, 128)
    return vocabulary("adaptive_softmax", cluster_sizes=sizes, cluster_widths=widths, tail_share=0.25)


def experts(kind: str, hidden: int, *, encoder: float) -> Overrides:
    """In layers 4, 8 and 12; the decoder's capacity is the default, since the release misspells its setting."""
    expert = {"hidden_width": hidden, "use_bias": False}

    def every(capacity: float) -> dict[str, Any]:
        layer = {"kind": kind, "num_experts": 32, "expert": expert, "num_replicas": 32, "capacity_factor": capacity}
        return {"kind": "every", "interval": 4, "feed_forward": layer}

    return {"model.encoder.layout": every(encoder), "model.decoder.layout": every(1.25)}


def synthesizer(kind: str) -> Overrides:
    """As run: 8 heads of 128 where the table's others have 12 of 64; attention to the source stays as it is."""
    return {
        "model.self_attention": {"kind": kind, "num_heads": 8, "head_width": 128},
        "model.decoder.cross_attention": {"kind": "unscaled", "use_bias": False},
    }


def convolution(kind: str, hidden: int) -> Overrides:
    """In place of all self-attention; nine taps, a filter of its own for every channel."""
    return {"model.self_attention": {"kind": kind}, "model.feed_forward.hidden_width": hidden}


NORMED = ("norm", "*", "dropout", "residual")
#: The published name of each row -> what it changes; None: not built yet.
TABLE: Mapping[str, Overrides | None] = {
    "Vanilla Transformer": {},
    "GeLU": activation("gelu"),
    "Swish": activation("swish"),
    "ELU": activation("elu"),
    "GLU": gated("sigmoid"),
    "GeGLU": gated("gelu"),
    "ReGLU": gated("relu"),
    "SeLU": activation("selu"),
    "SwiGLU": gated("swish"),
    "LiGLU": gated("identity"),
    "Sigmoid": activation("sigmoid"),
    "Softplus": activation("softplus"),
    "RMS Norm": {"model.norm": {"kind": "partial_rms_norm", "fraction": 0.0675}},
    "Rezero": joined("rezero", "*", "dropout", "residual", final=False),
    "Rezero + LayerNorm": joined("rezero", *NORMED, final=True),
    "Rezero + RMS Norm": {**joined("rezero", *NORMED, final=True), "model.norm": {"kind": "rms_norm"}},
    "Fixup": {
        **joined("scaled", "shift", "*", "dropout", "residual", final=True),
        "model.feed_forward": {"kind": "shifted", "hidden_width": PLAIN},
        "model.encoder.norm": {"kind": "scalar_shift_scale"},
        "model.decoder.norm": {"kind": "scalar_shift"},
        "model.initialization": {"kind": "fixup"},
    },
    "24 layers, $d_f = 1536, H = 6$": depth(24, 1536, 6),
    "18 layers, $d_f = 2048, H = 8$": depth(18, 2048, 8),
    "8 layers, $d_f = 4608, H = 18$": depth(8, 4608, 18),
    "6 layers, $d_f = 6144, H = 24$": depth(6, 6144, 24),
    "Block sharing": shared("encoder", "decoder"),
    "+ Factorized embeddings": shared("encoder", "decoder", vocabulary="factorized"),
    "+ Factorized & shared embeddings": shared("encoder", "decoder", vocabulary="factorized_shared"),
    "Encoder only block sharing": shared("encoder"),
    "Decoder only block sharing": shared("decoder"),
    "Factorized Embedding": vocabulary("factorized"),
    "Factorized & shared embeddings": vocabulary("factorized_shared"),
    "Tied encoder/decoder input embeddings": vocabulary("t5_untied_output"),
    "Tied decoder input and output embeddings": vocabulary("t5_untied_encoder"),
    "Untied embeddings": vocabulary("t5_untied"),
    "Adaptive input embeddings": vocabulary(
        "adaptive_input", cluster_sizes=(2500, 6000, 23628), cluster_widths=(768, 256, 64)
    ),
    "Adaptive softmax": adaptive_softmax(768, 256, 64, 768),
    "Adaptive softmax without projection": adaptive_softmax(768, 768, 768, 768),
    "Mixture of softmaxes": vocabulary("mixture_of_softmaxes"),
    "Transparent attention": {"model.encoder.kind": "transparent"},
    "Dynamic convolution": convolution("dynamic_convolution", 512),
    "Lightweight convolution": convolution("lightweight_convolution", PLAIN),
    "Evolved Transformer": None,
    "Synthesizer (dense)": synthesizer("dense_synthesizer"),
    "Synthesizer (dense plus)": synthesizer("dense_synthesizer_plus"),
    "Synthesizer (dense plus alpha)": synthesizer("dense_synthesizer_plus_alpha"),
    "Synthesizer (factorized)": synthesizer("factorized_synthesizer"),
    "Synthesizer (random)": synthesizer("random_synthesizer"),
    "Synthesizer (random plus)": synthesizer("random_synthesizer_plus"),
    "Synthesizer (random plus alpha)": synthesizer("random_synthesizer_plus_alpha"),
    "Universal Transformer": {
        **both(stack={"kind": "universal", "before": 2, "after": 2}, residual={"kind": "gru_gate"}),
        **vocabulary("t5_untied_output"),
        "model.num_layers": 2 + 24 + 2,
    },
    "Mixture of experts": experts("mixture_of_experts", 1536, encoder=2.0),
    "Switch Transformer": experts("switch_released", PLAIN, encoder=1.2),
    "Funnel Transformer": {
        "model.encoder.kind": "funnel",
        "model.encoder.norm": {"kind": "rms_norm"},
        "data.batching": {"kind": "buckets", "boundaries": (512,)},
    },
    "Weighted Transformer": {
        "model.self_attention": {"kind": "branched_t5"},
        "model.decoder.cross_attention": {"kind": "branched"},
        "model.encoder.steps": (("norm", SELF, "dropout", "residual"),),
        "model.decoder.steps": tuple(("norm", layer, "dropout", "residual") for layer in (SELF, CROSS)),
        "training.optimizer": {"kind": "simplex", "inner": {"kind": "adafactor"}},
    },
    "Product key memory": {
        "model.decoder.layout": {"kind": "one", "layer": 11, "feed_forward": {"kind": "product_key_memory"}},
    },
}
