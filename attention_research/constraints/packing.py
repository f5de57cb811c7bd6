"""Constraints on packed rows, which hold several examples: what mixes them, and what reads a row as one example."""

from __future__ import annotations

from attention_research.constraints.data import COPYING
from attention_research.constraints.section import Broken, Section

#: Kinds of self-attention whose tables have an entry for each position in the row, and what they do with a packed row.
COUNT_IN_A_ROW = {
    kind: f"{kind} ({{}}) counts positions in"
    for kind in (
        "positional", "dense_synthesizer", "dense_synthesizer_plus", "dense_synthesizer_plus_alpha",
        "factorized_synthesizer", "low_rank_synthesizer", "random_synthesizer", "random_synthesizer_plus",
        "random_synthesizer_plus_alpha",
    )
}  # fmt: skip
#: Kinds of attention of encoders and to a source that mix the keys of a row before a query sees them, and how.
MIX_A_ROW = {
    **COUNT_IN_A_ROW,
    "linformer": "Linformer ({}) projects keys over",
    "linformer_pooled": "linformer_pooled ({}) pools keys over",
    "linformer_convolved": "linformer_convolved ({}) convolves keys over",
    "isab": "isab ({}) summarises",
    "linear": "linear ({}) sums over",
    "performer": "performer ({}) sums over",
    "bigbird": "bigbird ({}) connects blocks of",
    "reformer": "reformer ({}) hashes",
    "sinkhorn": "sinkhorn ({}) sorts blocks of",
    "block_local": "block_local ({}) has blocks of",
    "dot_synthesizer": "dot_synthesizer ({}) has scores for",
    "cross_relative_keys": "cross_relative_keys ({}) counts distances in",
    "cross_relative_bias": "cross_relative_bias ({}) counts distances in",
    "cross_relative_keys_bias": "cross_relative_keys_bias ({}) counts distances in",
}
#: The same for kinds of self-attention of decoders.
MIX_A_ROW_CAUSALLY = {
    **COUNT_IN_A_ROW,
    "sinkhorn": MIX_A_ROW["sinkhorn"],
    "block_local": MIX_A_ROW["block_local"],
    "transformer_xl_memory": "transformer_xl_memory ({}) has segments of",
    "streaming": "streaming ({}) keeps the first tokens of",
}


def no_mixing_of_packed(section: Section, sections: list[Section]) -> Broken:
    """Attention that mixes the keys of a row takes no mask of segments. If it counts positions in the row, an example
    has other scores in a packed row than alone."""
    mixing = {"encoder_attention": MIX_A_ROW, "cross_attention": MIX_A_ROW, "causal_attention": MIX_A_ROW_CAUSALLY}
    for other in sections:
        if other.kind in mixing.get(other.family, ()):
            what = mixing[other.family][other.kind].format(other.path)
            return "kind", (
                f"packed rows hold several sentences and {what} the whole row, which would mix them; use buckets"
            )
    return None


def no_ring_of_packed(section: Section, sections: list[Section]) -> Broken:
    """Ring attention over several devices takes only a mask of keys."""
    meshes = [other.settings.get("sequence", 1) for other in sections if other.family == "mesh"]
    rings = [other.path for other in sections if other.family.endswith("_attention") and other.kind == "ring"]
    if not rings or max(meshes, default=1) == 1:
        return None
    what = f"packed rows hold several sentences, and ring ({rings[0]}) over parallel.mesh.sequence {meshes[0]}"
    return "kind", f"{what} does not hide them from each other; use buckets"


#: Models that read a whole row as one example, whatever the segments are.
READ_A_ROW = (
    "recurrent", "latent_alignment", "recurrent_language_model", "feed_forward_language_model", "language_model",
    *COPYING,
)  # fmt: skip


def one_example_a_row(section: Section, sections: list[Section]) -> Broken:
    """Recurrent networks, copying models and some language models read a whole row, whatever the segments are."""
    for other in sections:
        if other.family == "model" and other.kind in READ_A_ROW:
            return "kind", f"packed rows hold several sentences and {other.kind} reads a row as one; use buckets"
    return None


def one_example_a_pair(section: Section, sections: list[Section]) -> Broken:
    """A Funnel pools pairs of neighbouring positions, and latents and slots read a whole row, whatever the segments
    are."""
    mixing = {"funnel": "a Funnel", "perceiver": "a Perceiver", "slots": "slots"}
    for other in sections:
        if other.family == "encoder" and other.kind in mixing:
            what = f"{mixing[other.kind]} ({other.path})"
            return "kind", f"packed rows hold several sentences, which {what} would mix; use buckets"
    return None
