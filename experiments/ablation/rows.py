"""The rows of `attention.py`: a Transformer, and the same Transformer with one part changed at a time."""

from typing import Any

from attention_research.studies import Row

#: The scales of pronunciation, whose blocks are pre-norm, and the larger ones, which train the paper's base model.
SMALL, LARGE = ("smoke", "quick", "cpu"), ("gpu", "paper")
#: The depth of the rows `deep` and `deep_no_residual`.
DEEP = 6
#: The layers of a block of the encoder and of the decoder.
LAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}


def pre_norm(layer: str) -> tuple[str, ...]:
    """The steps of x + Dropout(f(LN(x))), as in configs/pronunciation/transformer.py."""
    return ("norm", layer, "dropout", "residual")


def post_norm(layer: str) -> tuple[str, ...]:
    """The steps of LN(x + Dropout(f(x))), as in the paper."""
    return (layer, "dropout", "residual", "norm")


def blocks(branch: Any, part: str = "") -> dict[str, Any]:
    """The steps of encoder and decoder blocks without one kind of step.

    A branch whose layer is removed is removed too. Pre-norm stacks have a final normalization, unless normalization is
    the removed part.
    """
    changed: dict[str, Any] = {}
    for side, layers in LAYERS.items():
        steps = tuple(tuple(step for step in branch(layer) if step != part) for layer in layers if layer != part)
        changed[f"model.{side}.steps"] = steps
        changed[f"model.{side}.final_norm"] = branch is pre_norm and part != "norm"
    return changed


def without(id: str, name: str, part: str) -> Row:
    """A row whose blocks do not have a kind of step."""
    small = blocks(pre_norm, part)
    return Row(id, name, blocks(post_norm, part), at={"cpu": small}, scales=("cpu", *LARGE))


def linformer(rank: int, **settings: str) -> dict[str, Any]:
    """The whole section of self-attention, which cross-attention follows."""
    return {"model.self_attention": {"kind": "linformer", "rank": rank, **settings}}


def relative(distance: int) -> dict[str, Any]:
    """Shaw's relative positions, clipped at a distance, instead of sinusoids."""
    return {"model.self_attention": {"kind": "relative", "max_distance": distance}, **NO_POSITIONS}


def from_cpu(id: str, name: str, overrides: dict[str, Any]) -> Row:
    """A row of the larger scales."""
    return Row(id, name, overrides, scales=("cpu", *LARGE))


NO_POSITIONS = {"model.positions.kind": "none"}
#: Vaswani et al. 2017, sections 3.1 and 5.3: post-norm blocks, Adam, Noam's schedule, no clipping. The warm-up is that
#: of the other rows. Of the factors 0.25, 0.5 and 1, the learning rate has the lowest validation loss of seed 0.
PAPER_RECIPE = {
    **blocks(post_norm),
    "training.optimizer": {"kind": "adam"},
    "training.schedule": {"kind": "noam", "warmup_steps": 120},
    "training.clip_norm": None,
    "training.learning_rate": 0.5,
}
UNSCALED = {"model.self_attention.kind": "unscaled"}
ROWS = (
    Row("standard", "scaled dot product"),
    Row("unscaled", "unscaled", UNSCALED),
    Row("relative_8", "relative (Shaw), k=8", relative(8), scales=SMALL),
    Row("relative", "relative (Shaw), k=16", relative(16), scales=LARGE),
    Row("linformer_8", "Linformer, rank 8", linformer(8)),
    Row("linformer_4", "Linformer, rank 4", linformer(4), scales=SMALL),
    from_cpu("linformer_16", "Linformer, rank 16", linformer(16)),
    Row("linformer_32", "Linformer, rank 32", linformer(32), scales=LARGE),
    Row("no_positions", "no positions", NO_POSITIONS),
    # T5 has no scale. Its initialization and Adafactor make up for that; with Adam its release scales the scores.
    from_cpu("t5", "T5 bias, unscaled", {"model.self_attention.kind": "t5", **NO_POSITIONS}),
    from_cpu("t5_scaled", "T5 bias", {"model.self_attention.kind": "t5_scaled", **NO_POSITIONS}),
    from_cpu("learned", "learned positions", {"model.positions.kind": "learned"}),
    from_cpu("heads_1", "1 head", {"model.num_heads": 1}),
    Row("heads_4", "4 heads", {"model.num_heads": 4}, scales=LARGE),  # the small configuration has 4 heads
    from_cpu("heads_8", "8 heads", {"model.num_heads": 8}),
    from_cpu("unscaled_heads_1", "1 head, unscaled", {"model.num_heads": 1, **UNSCALED}),
    *(
        Row(
            f"linformer_{mode}",
            f"Linformer, rank 16, sharing {mode.replace('_', '-')}",
            linformer(16, sharing=mode),
            scales=LARGE,
        )
        for mode in ("none", "headwise", "key_value", "layerwise")
    ),
    without("no_feed_forward", "no feed-forward", "feed_forward"),
    without("no_residual", "no residuals", "residual"),
    without("no_norm", "no normalisation", "norm"),
    from_cpu("no_mask", "no causal mask", {"model.decoder.self_attention": {"kind": "unmasked"}}),
    Row("paper_recipe", "the paper's recipe", PAPER_RECIPE, scales=("cpu",)),
    Row("deep", f"{DEEP} layers", {"model.num_layers": DEEP}, scales=("cpu",)),
    Row(
        "deep_no_residual",
        f"{DEEP} layers, no residuals",
        {"model.num_layers": DEEP, **blocks(pre_norm, "residual")},
        scales=("cpu",),
    ),
    # Other systems on the same dictionary with another split of its words, from the column "CMUdict latest" of
    # g2p-seq2seq.
    Row("phonetisaurus", "Phonetisaurus, WFST", scales=()),
    Row("lstm_64", "recurrent, 2 layers of 64", scales=()),
    Row("lstm_512", "recurrent, 2 layers of 512", scales=()),
    Row("transformer_256", "Transformer, 3 layers of 256", scales=()),
)
