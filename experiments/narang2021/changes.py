"""What rows of Narang et al. 2021, Table 1, change of its baseline, as overrides of its config."""

from __future__ import annotations

from typing import Any

from .sizes import Sizes

Overrides = dict[str, Any]
SELF, CROSS, FORWARD = "self_attention", "cross_attention", "feed_forward"
LAYERS = {"encoder": (SELF, FORWARD), "decoder": (SELF, CROSS, FORWARD)}
#: Steps of a branch, "*" where its layer stands; the baseline's is the second.
BARE = ("padding", "*", "dropout", "residual")
NORMED = ("norm", *BARE)


def activation(kind: str) -> Overrides:
    """max(0, x W1) and its kin."""
    return {"model.feed_forward.activation": kind}


def gated(kind: str, sizes: Sizes) -> Overrides:
    """(act(x W + b) * (x V + c)) W2 + b2."""
    return {"model.feed_forward": {"kind": "gated", "hidden_width": sizes.gated, "activation": kind}}


def both(**settings: Any) -> Overrides:
    """The same in the encoder's section and in the decoder's."""
    return {f"model.{side}.{name}": value for side in LAYERS for name, value in settings.items()}


def branches(*around: str, **layers: tuple[str, ...]) -> Overrides:
    """These steps around every layer of both sides, or of those sides whose layers are given."""
    return {
        f"model.{side}.steps": tuple(tuple(layer if step == "*" else step for step in around) for layer in of_side)
        for side, of_side in (layers or LAYERS).items()
    }


def with_adam(sizes: Sizes) -> Overrides:
    """What the rows without Adafactor changed too: the scale of logits and embeddings is not in their start."""
    rate, warmup_steps, ramp_steps = sizes.adam
    return {
        "model.self_attention.kind": "t5_scaled",
        "model.decoder.cross_attention.kind": "standard",
        "model.vocabulary": {"kind": "shared"},
        "training.learning_rate": rate,
        "training.optimizer": {"kind": "adam"},
        "training.schedule": {"kind": "inverse_sqrt", "warmup_steps": warmup_steps, "ramp_steps": ramp_steps},
    }


def joined(residual: str, sizes: Sizes, *around: str, final: bool) -> Overrides:
    """Another residual, with these steps around each layer."""
    started = {"model.initialization": {"kind": "mesh_tensorflow_scaled"}}
    return {**both(residual={"kind": residual}, final_norm=final), **branches(*around), **with_adam(sizes), **started}


def shape(number: int, sizes: Sizes) -> Overrides:
    """As many parameters in another shape."""
    layers, hidden, heads = sizes.shapes[number]
    return {"model.num_layers": layers, "model.feed_forward.hidden_width": hidden, "model.num_heads": heads}


def vocabulary(kind: str, **settings: Any) -> Overrides:
    """What embeds and what gives the logits."""
    return {"model.vocabulary": {"kind": kind, **settings}}


def shared(*sides: str) -> Overrides:
    """One layer's weights for all of these stacks."""
    return {f"model.{side}.stack": {"kind": "shared"} for side in sides}


def adaptive_softmax(widths: tuple[int, ...], sizes: Sizes) -> Overrides:
    """As run: a tail sees a quarter of a row's positions."""
    return vocabulary(
        "adaptive_softmax", cluster_sizes=sizes.output_clusters, cluster_widths=widths, tail_share=sizes.tail_share
    )


def experts(kind: str, sizes: Sizes, *, hidden: int, encoder: float, decoder: float = 1.25) -> Overrides:
    """The decoder's capacity is the default, since the release misspells its setting."""
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
    """As run: 8 heads of 128 where the table's others have 12 of 64; attention to the source stays as it is."""
    heads, head_width = sizes.synthesizer
    return {
        "model.self_attention": {"kind": kind, "num_heads": heads, "head_width": head_width},
        "model.decoder.cross_attention": {"kind": "unscaled", "use_bias": False},
    }


def convolution(kind: str, sizes: Sizes, *, hidden: int, **settings: Any) -> Overrides:
    """In place of all self-attention; nine taps, a filter of its own for every channel."""
    layer = {"kind": kind, "kernel_width": sizes.taps, **settings}
    return {"model.self_attention": layer, "model.feed_forward.hidden_width": hidden}


def evolved(blocks: int, wide: int) -> Overrides:
    """Blocks of four and five layers; the decoder's first is a wide self-attention beside attention to the source."""
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
    """One layer, applied again and again, through gates."""
    return {
        **both(stack={"kind": kind, **settings}, residual={"kind": "gru_gate"}),
        **vocabulary("t5_untied_output"),
        "model.num_layers": layers,
    }
