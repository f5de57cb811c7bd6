"""The rows of Narang et al. 2021, Table 1, as changes of its baseline (configs/text_to_text/narang2021.py).

Each row follows the released configuration. If that differs from the text of the paper, or from the cited paper, an
additional row outside the 52 follows the text: `as_written`.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import changes
from .changes import activation, convolution, experts, gated, joined, shape, shared, synthesizer, universal, vocabulary
from .sizes import Sizes

VANILLA = "Vanilla Transformer"


def table(sizes: Sizes) -> Mapping[str, changes.Overrides]:
    """Maps the published name of each row to its overrides at the given sizes."""
    untied, factorized, factorized_shared = (
        vocabulary("t5_untied_output"),
        vocabulary("factorized", rank=sizes.rank),
        vocabulary("factorized_shared", rank=sizes.rank),
    )
    before, steps, after = sizes.universal
    layer, num_keys, key_width, num_heads, knn = sizes.memory
    return {
        VANILLA: {},
        "GeLU": activation("gelu"),
        "Swish": activation("swish"),
        "ELU": activation("elu"),
        "GLU": gated("sigmoid", sizes),
        "GeGLU": gated("gelu", sizes),
        "ReGLU": gated("relu", sizes),
        "SeLU": activation("selu"),
        "SwiGLU": gated("swish", sizes),
        "LiGLU": gated("identity", sizes),
        "Sigmoid": activation("sigmoid"),
        "Softplus": activation("softplus"),
        "RMS Norm": {
            "model.norm": {"kind": "partial_rms_norm", "fraction": 0.0675},
            **changes.branches("padding", "norm", "*", "dropout", "residual"),
        },
        "Rezero": joined("rezero", sizes, *changes.BARE, final=False),
        "Rezero + LayerNorm": joined("rezero", sizes, *changes.NORMED, final=True),
        "Rezero + RMS Norm": {
            **joined("rezero", sizes, *changes.NORMED, final=True),
            "model.norm": {"kind": "rms_norm"},
        },
        "Fixup": {
            **joined("scaled", sizes, "shift", *changes.BARE, final=True),
            "model.feed_forward": {"kind": "shifted", "hidden_width": sizes.hidden},
            "model.encoder.norm": {"kind": "scalar_shift_scale"},
            "model.decoder.norm": {"kind": "scalar_shift"},
            "model.initialization": {"kind": "fixup"},
        },
        "24 layers, $d_f = 1536, H = 6$": shape(0, sizes),
        "18 layers, $d_f = 2048, H = 8$": shape(1, sizes),
        "8 layers, $d_f = 4608, H = 18$": shape(2, sizes),
        "6 layers, $d_f = 6144, H = 24$": shape(3, sizes),
        "Block sharing": {**shared("encoder", "decoder"), **untied},
        "+ Factorized embeddings": {**shared("encoder", "decoder"), **factorized},
        "+ Factorized & shared embeddings": {**shared("encoder", "decoder"), **factorized_shared},
        "Encoder only block sharing": {**shared("encoder"), **untied},
        "Decoder only block sharing": {**shared("decoder"), **untied},
        "Factorized Embedding": factorized,
        "Factorized & shared embeddings": factorized_shared,
        "Tied encoder/decoder input embeddings": untied,
        "Tied decoder input and output embeddings": vocabulary("t5_untied_encoder"),
        "Untied embeddings": vocabulary("t5_untied"),
        "Adaptive input embeddings": vocabulary(
            "adaptive_input", cluster_sizes=sizes.input_clusters, cluster_widths=sizes.input_widths
        ),
        "Adaptive softmax": changes.adaptive_softmax(sizes.output_widths, sizes),
        "Adaptive softmax without projection": changes.adaptive_softmax(
            (sizes.width,) * len(sizes.output_widths), sizes
        ),
        "Mixture of softmaxes": vocabulary("mixture_of_softmaxes", num_softmaxes=sizes.softmaxes),
        "Transparent attention": {"model.encoder.kind": "transparent"},
        "Dynamic convolution": convolution("dynamic_convolution", sizes, hidden=sizes.dynamic_hidden),
        "Lightweight convolution": convolution("lightweight_convolution", sizes, hidden=sizes.hidden),
        "Evolved Transformer": changes.evolved(*sizes.evolved),
        "Synthesizer (dense)": synthesizer("dense_synthesizer", sizes),
        "Synthesizer (dense plus)": synthesizer("dense_synthesizer_plus", sizes),
        "Synthesizer (dense plus alpha)": synthesizer("dense_synthesizer_plus_alpha", sizes),
        "Synthesizer (factorized)": synthesizer("factorized_synthesizer", sizes),
        "Synthesizer (random)": synthesizer("random_synthesizer", sizes),
        "Synthesizer (random plus)": synthesizer("random_synthesizer_plus", sizes),
        "Synthesizer (random plus alpha)": synthesizer("random_synthesizer_plus_alpha", sizes),
        "Universal Transformer": universal("universal", before + steps + after, before=before, after=after),
        "Mixture of experts": experts("mixture_of_experts", sizes, hidden=sizes.expert_hidden, encoder=2.0),
        "Switch Transformer": experts("switch_released", sizes, hidden=sizes.hidden, encoder=1.2),
        "Funnel Transformer": {
            "model.encoder.kind": "funnel",
            "model.encoder.blocks": sizes.blocks,
            "model.encoder.norm": {"kind": "rms_norm"},
            "training.accumulation_steps": 4,
        },
        "Weighted Transformer": {
            "model.self_attention": {"kind": "branched_t5"},
            "model.decoder.cross_attention": {"kind": "branched"},
            **changes.branches(*changes.NORMED, encoder=(changes.SELF,), decoder=(changes.SELF, changes.CROSS)),
            "training.optimizer": {"kind": "simplex", "inner": {"kind": "adafactor"}},
        },
        "Product key memory": {
            "model.decoder.layout": {
                "kind": "one",
                "layer": layer,
                "feed_forward": {
                    "kind": "product_key_memory",
                    "num_keys": num_keys,
                    "key_width": key_width,
                    "num_heads": num_heads,
                    "knn": knn,
                },
            },
        },
    }


def one_optimizer(sizes: Sizes) -> Mapping[str, changes.Overrides]:
    """The table with the optimizer and the learning rates of the baseline in all rows, so that the rows differ only in
    their models. The baseline and the rows that are released with Adam follow, with Adam."""
    released = table(sizes)
    adam = {name: row for name, row in released.items() if row.get("training.optimizer") == {"kind": "adam"}}
    model = lambda row: {name: value for name, value in row.items() if not name.startswith("training.")}
    rows = {name: model(row) if name in adam else row for name, row in released.items()}
    return rows | {f"{name}, Adam": row for name, row in ({VANILLA: changes.with_adam(sizes)} | adam).items()}


def as_written(sizes: Sizes) -> Mapping[str, changes.Overrides]:
    """Maps the name of a row of the table to the overrides that follow the text of its paper."""
    return {
        "RMS Norm": {"model.norm": {"kind": "rms_norm"}},
        "Dynamic convolution": convolution(
            "dynamic_convolution", sizes, hidden=sizes.dynamic_hidden, num_filters=sizes.filters
        ),
        "Lightweight convolution": convolution(
            "lightweight_convolution", sizes, hidden=sizes.hidden, num_filters=sizes.filters
        ),
        "Synthesizer (factorized)": synthesizer("low_rank_synthesizer", sizes),
        "Universal Transformer": universal("adaptive_universal", sizes.universal[1], threshold=0.5),
        "Mixture of experts": experts(
            "mixture_of_experts", sizes, hidden=sizes.expert_hidden, encoder=2.0, decoder=2.0
        ),
        "Switch Transformer": experts("switch_released", sizes, hidden=sizes.hidden, encoder=1.2, decoder=1.2),
    }
