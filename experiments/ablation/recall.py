"""Every causal self-attention on multi-query associative recall (Arora et al. 2023, arXiv 2312.04927).

    attention-research reproduce ablation/recall --scale=cpu

A row has 64 tokens: 8 pairs of a key and a value, and a question for each key. A model has two layers of attention
without feed-forwards, as in the paper, with 2 heads and learned positions. All rows have the same schedule and the same
batches. Only the kind of self-attention differs. A kind whose weights do not depend on the contents of two positions
(convolutions, Synthesizers) cannot do better than guess one of the values of the row.
"""

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import FLOPS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence

CONFIG = "configs/language_modelling/recall.py"
ACCURACY = Column("evaluate.accuracy", "accuracy, %", fixed(1), better="higher")
ROTARY = {"kind": "rotary"}


def kind(name: str, printed: str, **settings: object) -> Row:
    """The row of a kind of self-attention with its settings."""
    return Row(name, printed, {"model.self_attention": {"kind": name, **settings}})


SOFTMAX = (
    kind("standard", "standard"),
    kind("unscaled", "without scale"),
    kind("sink", "sink"),
    kind("softcap", "capped scores", cap=20.0),
    kind("sigmoid", "sigmoid"),
    kind("query_key_l2", "cosines", typical_length=64),
    kind("temperature", "learned temperature"),
    kind("differential", "differential"),
    kind("gated", "gated"),
    kind("gated_rotary", "gated, rotary"),
    kind("latent", "latent (MLA)", latent_width=32, rotary_width=16),
    kind("sparsemax", "sparsemax"),
    kind("entmax15", "1.5-entmax"),
    kind("entmax", "entmax, learned"),
    kind("talking_heads", "talking heads"),
    kind("length_scaled", "scaled by length (SSMax)"),
    kind("position_scaled", "scaled by position (Llama 4)"),
    kind("exclusive", "exclusive (XSA)"),
    kind("tensor_product", "tensor product (TPA)"),
    kind("stick_breaking", "stick-breaking"),
    kind("selective", "selective"),
    kind("multi_token", "multi-token (MTA)", head_group=2),
    kind("branched", "branched"),
    kind("ring", "ring"),
)
POSITIONS = (
    kind("relative", "relative (Shaw)"),
    kind("relative_keys", "relative, keys alone"),
    kind("relative_values", "relative, values alone"),
    kind("relative_bias", "relative, biases"),
    kind("relative_keys_bias", "relative, keys and biases"),
    kind("t5", "T5 bias"),
    kind("t5_scaled", "T5 bias, scaled"),
    kind("branched_t5", "branched, T5 bias"),
    kind("alibi", "ALiBi"),
    kind("kerple", "KERPLE"),
    kind("fire", "FIRE"),
    kind("contextual", "contextual (CoPE)"),
    kind("rotary", "rotary"),
    kind("scaled_rotary", "rotary, YaRN", factor=2.0, original_length=64),
    kind("xpos", "xPos"),
    kind("path", "PaTH"),
    kind("forgetting", "forgetting (FoX)"),
    kind("forgetting_pro", "forgetting, Pro"),
    kind("positional", "positions in every layer"),
    kind("transformer_xl", "Transformer-XL"),
    kind("transformer_xl_memory", "Transformer-XL, segments of 32", segment_length=32),
)
SPARSE = (
    kind("sliding_window", "sliding window of 32", window=31),
    kind("sliding_window_rotary", "sliding window, rotary", window=31),
    kind("streaming", "streaming", window=31),
    kind("block_local", "blocks of 32", block_size=32),
    kind("sinkhorn", "Sinkhorn", block_size=16),
    kind("moba", "MoBA", block_size=8, top_k=4),
    kind("native_sparse", "NSA", block_size=8, num_blocks=4, window=15),
    kind("indexed", "indexed (DSA)", top_k=16, num_index_heads=2, index_width=16),
)
STATES = (
    kind("linear", "linear"),
    kind("performer", "Performer"),
    kind("based", "Based"),
    kind("retnet", "RetNet"),
    kind("lightning", "lightning"),
    kind("gla", "GLA"),
    kind("mamba", "Mamba"),
    kind("mamba2", "Mamba-2"),
    kind("mlstm", "mLSTM"),
    kind("deltanet", "DeltaNet"),
    kind("gated_deltanet", "Gated DeltaNet"),
    kind("kda", "KDA"),
    kind("rwkv7", "RWKV-7"),
    kind("log_linear", "log-linear Mamba-2"),
)
CONVOLUTIONS = (kind("hyena", "Hyena"),)
STACKS = (
    kind("value_residual", "value residual"),
    kind("cross_layer", "cross-layer keys"),
    kind("yoco", "YOCO", lower={"kind": "gated_deltanet"}),
    kind("interleaved", "Gated DeltaNet, then rotary", interval=2, first={"kind": "gated_deltanet"}, last=ROTARY),
)
WITHOUT_CONTENTS = tuple(
    kind(name, name.replace("_", " "))
    for name in (
        "lightweight_convolution", "dynamic_convolution", "dense_synthesizer", "dense_synthesizer_plus",
        "dense_synthesizer_plus_alpha", "factorized_synthesizer", "low_rank_synthesizer", "random_synthesizer",
        "random_synthesizer_plus", "random_synthesizer_plus_alpha",
    )
)  # fmt: skip
HEADS = {"model.num_heads": 2}

STUDY = Study(
    rows=(*SOFTMAX, *POSITIONS, *SPARSE, *STATES, *CONVOLUTIONS, *STACKS, *WITHOUT_CONTENTS),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", HEADS, seeds=1, jobs=2),
        "cpu": Scale(
            f"{CONFIG}:cpu",
            HEADS,
            seeds=3,
            replicas=True,
            reference="standard",
            decided_by=ACCURACY,
            note="All rows have the learning rate that the configuration has for standard attention.",
        ),
    },
    columns=(PARAMETERS, FLOPS, ACCURACY),
    competence=(Competence("standard", "evaluate.accuracy", "chance", margin=50.0, higher=True),),
)
