"""The changes of the rows of Narang et al. 2021, Table 1, as overrides of the baseline's config."""

from __future__ import annotations

from typing import Any

from .sizes import Sizes

Overrides = dict[str, Any]
SELF, CROSS, FORWARD = "self_attention", "cross_attention", "feed_forward"
LAYERS = {"encoder": (SELF, FORWARD), "decoder": (SELF, CROSS, FORWARD)}
#: The steps of a branch; "*" stands for its layer. The second tuple is that of the baseline.
BARE = ("padding", "*", "dropout", "residual")
NORMED = ("norm", *BARE)


def activation(kind: str) -> Overrides:
    """A feed-forward layer with another activation, like max(0, x W1) W2."""
    return {"model.feed_forward.activation": kind}


def gated(kind: str, sizes: Sizes) -> Overrides:
    """A gated feed-forward layer, `(act(x W + b) * (x V + c)) W2 + b2`."""
    return {"model.feed_forward": {"kind": "gated", "hidden_width": sizes.gated, "activation": kind}}


def both(**settings: Any) -> Overrides:
    """The same settings in the sections of encoder and decoder."""
    return {f"model.{side}.{name}": value for side in LAYERS for name, value in settings.items()}


def branches(*around: str, **layers: tuple[str, ...]) -> Overrides:
    """The given steps around every layer of encoder and decoder, or only of the stacks whose layers are given."""
    return {
        f"model.{side}.steps": tuple(tuple(layer if step == "*" else step for step in around) for layer in of_side)
        for side, of_side in (layers or LAYERS).items()
    }


def with_adam(sizes: Sizes) -> Overrides:
    """The further changes of the rows that use Adam instead of Adafactor: logits and embeddings are scaled explicitly
    instead of by the initialization."""
    rate, warmup_steps, ramp_steps = sizes.adam
    return {
        "model.self_attention.kind": "t5_scaled",
        "model.decoder.cross_attention.kind": "standard",
        "model.vocabulary": {"kind": "shared"},
        "training.learning_rate": rate,
        "training.optimizer": {"kind": "adam"},
        "training.schedule": {"kind": "inverse_sqrt", "warmup_steps": warmup_steps, "ramp_steps": ramp_steps},
        "model.initialization": {"kind": "mesh_tensorflow_scaled"},
    }


def joined(residual: str, sizes: Sizes, *around: str, final: bool) -> Overrides:
    """Another residual connection, with the given steps around each layer."""
    return {**both(residual={"kind": residual}, final_norm=final), **branches(*around), **with_adam(sizes)}


def shape(number: int, sizes: Sizes) -> Overrides:
    """The same number of parameters in another shape."""
    layers, hidden, heads = sizes.shapes[number]
    return {"model.num_layers": layers, "model.feed_forward.hidden_width": hidden, "model.num_heads": heads}


def vocabulary(kind: str, **settings: Any) -> Overrides:
    """The embeddings and the output layer."""
    return {"model.vocabulary": {"kind": kind, **settings}}


def shared(*sides: str) -> Overrides:
    """Stacks whose layers share the weights of one layer."""
    return {f"model.{side}.stack": {"kind": "shared"} for side in sides}


def adaptive_softmax(widths: tuple[int, ...], sizes: Sizes) -> Overrides:
    """Adaptive softmax as released: a tail has room for a quarter of the positions of a row."""
    return vocabulary(
        "adaptive_softmax", cluster_sizes=sizes.output_clusters, cluster_widths=widths, tail_share=sizes.tail_share
    )


def experts(kind: str, sizes: Sizes, *, hidden: int, encoder: float, decoder: float = 1.25) -> Overrides:
    """Experts. The decoder's capacity is the default, because the release misspells its setting."""
    layer = {
        "kind": kind,
        "num_experts": sizes.num_experts,
        "expert": {"hidden_width": hidden, "use_bias": False},
        "num_replicas": sizes.replicas,
        "evaluation_capacity_factor": sizes.evaluation_capacity,
    }
    every = lambda capacity: {
        "kind": "every", "interval": sizes.expert_interval, "feed_forward": {**layer, "capacity_factor": capacity}
    }  # fmt: skip
    start = {"model.initialization": {"kind": "mesh_tensorflow", "dense_variance": 0.1}}
    return {"model.encoder.layout": every(encoder), "model.decoder.layout": every(decoder), **start}


def synthesizer(kind: str, sizes: Sizes) -> Overrides:
    """Synthesizers as released: 8 heads of width 128 instead of 12 of width 64. Cross-attention is not changed."""
    heads, head_width = sizes.synthesizer
    return {
        "model.self_attention": {"kind": kind, "num_heads": heads, "head_width": head_width},
        "model.decoder.cross_attention": {"kind": "unscaled", "use_bias": False},
    }


def convolution(kind: str, sizes: Sizes, *, hidden: int, **settings: Any) -> Overrides:
    """Convolution instead of all self-attention, with nine taps and one filter for every channel."""
    layer = {"kind": kind, "kernel_width": sizes.taps, **settings}
    return {"model.self_attention": layer, "model.feed_forward.hidden_width": hidden}


def evolved(blocks: int, wide: int) -> Overrides:
    """The Evolved Transformer, with blocks of four and five layers.

    The first layer of a decoder block has a wide self-attention in parallel to cross-attention.
    """
    layers = {
        "encoder": ("gated_linear_unit", "convolution", SELF, FORWARD),
        "decoder": (f"wide_{SELF}+{CROSS}", "convolution", SELF, CROSS, FORWARD),
    }
    return {
        "model.encoder.kind": "evolved",
        "model.decoder.kind": "evolved",
        "model.num_layers": blocks,
        **branches(*NORMED, **layers),
        "model.decoder.wide_self_attention.num_heads": wide,
        "model.decoder.feed_forward.activation": "swish",
    }


def universal(kind: str, layers: int, **settings: Any) -> Overrides:
    """One layer that is applied repeatedly, with gates."""
    return {
        **both(stack={"kind": kind, **settings}, residual={"kind": "gru_gate"}),
        **vocabulary("t5_untied_output"),
        "model.num_layers": layers,
    }
