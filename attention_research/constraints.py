"""Constraints between settings. They are checked on the resolved config, before any data, device or file is used.

A constraint is a function ``(section, sections) -> (setting, message) | None`` and one line in `CONSTRAINTS` with the
families and kinds to which it applies. The ranges of single settings are in their annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple


class Section(NamedTuple):
    """A resolved section: its full path, family and kind, and its settings."""

    path: str
    family: str
    kind: str
    settings: dict[str, Any]


Broken = tuple[str, str] | None


def heads_divide_width(section: Section, sections: list[Section]) -> Broken:
    """head_width None means width / num_heads (Vaswani et al. 2017, section 3.2.2: d_k = d_model / h)."""
    settings = section.settings
    if not {"width", "num_heads"} <= settings.keys() or settings.get("head_width") is not None:
        return None
    width, heads = settings["width"], settings["num_heads"]
    if width % heads == 0:
        return None
    return "num_heads", f"{heads} heads do not divide the width {width}; change one of them or set head_width"


def rank_within_length(section: Section, sections: list[Section]) -> Broken:
    """Linformer projects `max_length` keys to `rank` keys, so that `rank` must not be above `max_length`."""
    rank, length = section.settings["rank"], section.settings["max_length"]
    return ("rank", f"Linformer's rank {rank} is above max_length {length}") if rank > length else None


def patches_fill_the_length(section: Section, sections: list[Section]) -> Broken:
    """The length of a Vision Transformer is the number of patches plus a class token (Dosovitskiy et al. 2021)."""
    settings = section.settings
    side, patch, token = settings["side"], settings["patch_side"], settings["pooling"] == "class_token"
    if side % patch:
        return "patch_side", f"{patch} does not divide the images' side {side}"
    length = (side // patch) ** 2 + token
    if length == settings["max_length"]:
        return None
    what = f"{(side // patch) ** 2} patches{' and a class token' if token else ''}"
    return "max_length", f"{what} have a length of {length}; got {settings['max_length']}"


def distances_beyond_the_exact(section: Section, sections: list[Section]) -> Broken:
    """Half of T5's buckets have one distance each, and the others share the distances up to `max_distance`. In an
    encoder, each direction has half of the buckets (Raffel et al. 2020, released code)."""
    settings = section.settings
    if not {"num_buckets", "max_distance"} <= settings.keys():
        return None
    buckets, distance = settings["num_buckets"], settings["max_distance"]
    parts = 4 if section.family == "encoder_attention" else 2
    if buckets < parts:
        return "num_buckets", f"expected at least {parts}, got {buckets}"
    exact = buckets // parts
    if distance > exact:
        return None
    return "max_distance", f"expected more than {exact}, got {distance}; {buckets} buckets have {exact} exact distances"


def filters_divide_width(section: Section, sections: list[Section]) -> Broken:
    """Each filter of a convolution serves the same number of channels (Wu et al. 2019, section 3)."""
    width, filters = section.settings["width"], section.settings["num_filters"]
    if filters is None or width % filters == 0:
        return None
    return "num_filters", f"{filters} filters do not divide the width {width}"


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


#: Models that copy words of their source.
COPYING = ("conv_attention", "copy_attention", "pointer_generator")
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


def a_state_a_token(section: Section, sections: list[Section]) -> Broken:
    """An encoder-only model predicts a token at each position, so that it needs one hidden state per position."""
    given = {
        "funnel": "fewer states than tokens",
        "transparent": "a state for each layer of a decoder",
        "perceiver": "a state for each latent",
        "slots": "a state for each slot",
    }
    kind = section.settings["encoder"]["kind"]
    return ("encoder.kind", f"{kind} gives {given[kind]}; this model predicts each token") if kind in given else None


def memories_for_a_decoder(section: Section, sections: list[Section]) -> Broken:
    """A transparent encoder gives each layer of a decoder a memory of its own."""
    if section.settings.get("encoder", {}).get("kind") != "transparent":
        return None
    return "encoder.kind", f"transparent gives a state for each layer of a decoder; {section.kind} has one memory"


#: Encoders that do not give a state for each word or patch -> what their states belong to.
OTHER_STATES = {"funnel": "pooled positions", "perceiver": "latents", "slots": "slots"}


def words_to_weigh(section: Section, sections: list[Section]) -> Broken:
    """Some poolings give the state at a place the weight of the word at this place."""
    kind, encoder = (section.settings.get(name, {}).get("kind") for name in ("pooling", "encoder"))
    if kind not in ("idf", "tf_idf", "token_weight"):
        return None
    if section.kind == "image_classifier":
        return "pooling.kind", f"{kind} weighs words, and a picture has none"
    if encoder in OTHER_STATES:
        return "pooling.kind", f"{kind} weighs words, and {encoder} gives {OTHER_STATES[encoder]}"
    if section.kind == "pair_classifier" and kind != "token_weight":
        return "pooling.kind", f"{kind} weighs words by their documents, which pairs of sequences lack"
    return None


def a_class_token_to_read(section: Section, sections: list[Section]) -> Broken:
    """The first state of the encoder is that of the class token only where it gives a state for each patch."""
    encoder = section.settings["encoder"]["kind"]
    if section.settings["pooling"] != "class_token" or encoder not in OTHER_STATES:
        return None
    return "pooling", f"class_token reads its own state, and {encoder} gives {OTHER_STATES[encoder]}; use mean"


def layers_to_share(section: Section, sections: list[Section]) -> Broken:
    """The decoder of a shared Transformer has the layers of its encoder, and slots have one round without a stack."""
    if section.settings["encoder"]["kind"] != "slots":
        return None
    return "encoder.kind", "slots has no layers that the decoder of shared_transformer could use"


def a_diagonal_to_mask(section: Section, sections: list[Section]) -> Broken:
    """The diagonal of attention pairs a position with itself only in the self-attention of an encoder."""
    if not section.settings["masks_diagonal"] or section.family == "encoder_attention":
        return None
    return "masks_diagonal", "only the self-attention of an encoder can hide a position from itself"


def equal_blocks(section: Section, sections: list[Section]) -> Broken:
    """All blocks of a Funnel have the same number of layers."""
    layers, blocks = section.settings["num_layers"], section.settings["blocks"]
    return ("blocks", f"{layers} layers do not divide into {blocks} equal blocks") if layers % blocks else None


def steps_are_left(section: Section, sections: list[Section]) -> Broken:
    """`num_layers` counts all applications of the layer of a universal stack, which must include at least one step."""
    above = section.path.rpartition(".")[0]
    layers = next(other.settings["num_layers"] for other in sections if other.path == above)
    before, after = section.settings["before"], section.settings["after"]
    if before + after < layers:
        return None
    return "before", f"of {layers} applications (num_layers), {before} before and {after} after leave no step between"


def states_that_fit(section: Section, sections: list[Section]) -> Broken:
    """The states of a recurrent encoder and decoder fit together.

    A dot product needs decoder states of the same width as the encoder states. A decoder that starts from the encoder's
    final states needs the same number of layers and the same width.
    """
    inside = {other.path.removeprefix(f"{section.path}."): other for other in sections}
    encoder, decoder = inside["encoder"], inside.get("decoder", section)  # a latent alignment is its own decoder
    scored, starts = ("decoder.alignment.score", "decoder.start") if "decoder" in inside else ("score", "start")
    width, keys = decoder.settings["width"], encoder.settings["width"] * (1 + (encoder.kind == "bidirectional"))
    if scored in inside and inside[scored].kind in ("dot", "scaled_dot", "cosine") and width != keys:
        what = f"{inside[scored].kind} needs equal widths; the decoder's state has {width}, the encoder's {keys}"
        return f"{scored}.kind", f"{what}; use general"
    if inside[starts].kind == "encoder_state":
        layers = [side.settings.get("num_layers", 1) for side in (encoder, decoder)]
        if width != keys or layers[0] != layers[1]:
            what = f"encoder_state passes {layers[0]} states of width {keys}"
            return f"{starts}.kind", f"{what}, and the decoder has {layers[1]} of width {width}; use projected"
    return None


def a_context_to_read(section: Section, sections: list[Section]) -> Broken:
    """Decoders with a readout of their own read a context, which `none` does not have."""
    kinds = {other.path: other.kind for other in sections}
    if kinds.get(f"{section.path}.alignment") != "none":
        return None
    return "alignment.kind", f"none has no context, which {section.kind} reads; use last_state, or the decoder luong"


def words_that_are_copied(section: Section, sections: list[Section]) -> Broken:
    """Only a copying model can read and write words beyond its vocabulary."""
    model = next((other.kind for other in sections if other.family == "model"), None)
    if not section.settings["extended"] or model in COPYING:
        return None
    return "extended", f"{model} has no words beyond its vocabulary; set it to false"


def a_context_that_is_read(section: Section, sections: list[Section]) -> Broken:
    """Language models without a source read only the row that they predict."""
    model = next((other.kind for other in sections if other.family == "model"), None)
    context = section.settings["context"]
    if not context or model not in ("transformer_decoder", "recurrent_language_model"):
        return None
    return "context", f"{model} does not read the {context} tokens before a row; set it to 0"


def inputs_for_the_latents(section: Section, sections: list[Section]) -> Broken:
    """The latents of a Perceiver read the input where the steps have self-attention."""
    if any("self_attention" in terms.split("+") for branch in section.settings["steps"] for terms in branch):
        return None
    return "steps", "the latents of a Perceiver read the input in the step self_attention, which is missing"


def a_row_for_each_source_word(section: Section, sections: list[Section]) -> Broken:
    """Source and target share a tokenizer, so the table of the source has a row for each of its words."""
    rows, words = section.settings["source_vocabulary_size"], section.settings["vocabulary_size"]
    if rows is None or rows >= words:
        return None
    return "source_vocabulary_size", f"{rows} rows are too few; both languages share a tokenizer of {words} words"


def steps_that_exist(section: Section, sections: list[Section]) -> Broken:
    """The steps of a block are its children, sums of them, dropout, residual, shift and padding (`layers.block`)."""
    if "steps" not in section.settings:
        return None
    around = ("positions", "layout", "stack")
    children = [name for name, value in section.settings.items() if isinstance(value, dict) and name not in around]
    known = [*dict.fromkeys([*children, "dropout", "residual", "shift", "padding"])]
    for branch in section.settings["steps"]:
        for step in (term for terms in branch for term in terms.split("+")):
            if step not in known:
                close = next(iter(get_close_matches(step, known, n=1)), None)
                hint = f"did you mean {close!r}?" if close else f"the steps are {', '.join(known)}"
                return "steps", f"no step {step!r} in a block of this section; {hint}"
    return None


def whole_mesh(section: Section, sections: list[Section]) -> Broken:
    """`data` is a positive number, or -1 for all remaining devices."""
    data = section.settings["data"]
    message = f"expected an int at least 1, or -1 (the rest); got {data}"
    return ("data", message) if data < 1 and data != -1 else None


def a_mesh_that_is_used(section: Section, sections: list[Section]) -> Broken:
    """pmap has no mesh: it uses all devices."""
    if section.settings.get("strategy") != "pmap":
        return None
    for axis, size in section.settings.get("mesh", {}).items():
        if axis != "kind" and size != (-1 if axis == "data" else 1):
            why = f"{size} has no effect under pmap, which splits the rows of a batch over all devices"
            return f"mesh.{axis}", f"{why}; set {section.path}.strategy=jit"
    return None


def replicas_on_a_mesh(section: Section, sections: list[Section]) -> Broken:
    """The program of several replicas runs under jit only."""
    under_pmap = any(one.family == "parallel" and one.settings.get("strategy") == "pmap" for one in sections)
    if not under_pmap or section.settings.get("replicas", 1) == 1:
        return None
    return "replicas", "replicas run under parallel.strategy=jit, not pmap"


def room_for_words(section: Section, sections: list[Section]) -> Broken:
    """Ids 0 to 3 are padding, BOS, EOS and unknown. Experiments with images only have no vocabulary."""
    if "vocabulary_size" not in section.settings:
        return None
    size = section.settings["vocabulary_size"]
    return ("vocabulary_size", f"{size} leaves no room beside the 4 special tokens") if size <= 4 else None


def nesterov_needs_momentum(section: Section, sections: list[Section]) -> Broken:
    """Without momentum, a Nesterov step would be a plain gradient step."""
    settings = section.settings
    if settings["nesterov"] and not settings["momentum"]:
        return "nesterov", "a Nesterov step needs momentum; set momentum above 0"
    return None


def averaged_are_kept(section: Section, sections: list[Section]) -> Broken:
    """`evaluation.average` averages checkpoints, which training must keep."""
    count = section.settings["average"]
    if count > 1 and _is_further(section):
        return "average", "all evaluations score the same model; set config.evaluation.average instead"
    kept = [other.settings["keep"] for other in sections if other.family == "training" and "keep" in other.settings]
    if not kept or count <= kept[0]:
        return None
    return "average", f"{count} checkpoints are averaged, but training.keep keeps {kept[0]}; change one of them"


def _is_further(section: Section) -> bool:
    return section.path.startswith("config.evaluations.")


def best_by_what_training_scores(section: Section, sections: list[Section]) -> Broken:
    """`training.best_by` is the validation loss, or a metric of one of the further evaluations."""
    wanted = section.settings.get("best_by", "loss")
    if wanted == "loss":
        return None
    splits = {one.path.split(".")[2]: one.settings["split"] for one in sections if _is_further(one)}
    name, _, metric = wanted.partition(".")
    if name not in splits or not metric:
        there = f"; evaluations has {', '.join(splits)}" if splits else "; evaluations is empty"
        return "best_by", f"expected loss, or NAME.METRIC of one of config.evaluations; got {wanted!r}{there}"
    if splits[name] == "test":
        return (
            "best_by",
            f"no checkpoint may be chosen by the test split; set config.evaluations.{name}.split=validation",
        )
    return None


def whole_accumulation_steps(section: Section, sections: list[Section]) -> Broken:
    """All accumulation steps process equal parts of the batch."""
    if "accumulation_steps" not in section.settings:
        return None
    rows, parts = section.settings["batch_size"], section.settings["accumulation_steps"]
    return ("accumulation_steps", f"{parts} does not divide batch_size {rows}") if rows % parts else None


def a_checkpoint_to_choose(section: Section, sections: list[Section]) -> Broken:
    """The best checkpoint can be chosen only if it is kept and if checkpoints are not averaged."""
    settings = section.settings
    chosen = settings.get("chosen_checkpoint", "last")
    if chosen == "last":
        return None
    if chosen != "best":
        return "chosen_checkpoint", f"expected last or best; got {chosen!r}"
    if not settings["keep_best"]:
        return "chosen_checkpoint", "best, but no best checkpoint is kept; set keep_best=1"
    averages = [one.settings.get("average", 1) for one in sections if one.family == "evaluation"]
    if any(average > 1 for average in averages):
        return "chosen_checkpoint", "best, but evaluation.average averages several; use only one of the two"
    return None


def a_checkpoint_that_can_be(section: Section, sections: list[Section]) -> Broken:
    """`initial_checkpoint` takes the same values as `evaluate --checkpoint`."""
    wanted = section.settings.get("initial_checkpoint", "last")
    known = wanted in ("last", "best") or wanted.isdecimal()
    return None if known else ("initial_checkpoint", f"expected last, best or a step; got {wanted!r}")


def nucleus_within_all(section: Section, sections: list[Section]) -> Broken:
    """`top_p` is a probability."""
    top_p = section.settings["top_p"]
    return ("top_p", f"expected a float above 0 and at most 1; got {top_p}") if top_p and top_p > 1 else None


def clusters_cover_the_vocabulary(section: Section, sections: list[Section]) -> Broken:
    """Every token is in one cluster, and every cluster has a width."""
    names = ("vocabulary_size", "cluster_sizes", "cluster_widths")
    size, sizes, widths = (section.settings[name] for name in names)
    if sum(sizes) != size:
        return "cluster_sizes", f"{sizes} add up to {sum(sizes)}; the vocabulary has {size} tokens"
    if len(widths) != len(sizes):
        return "cluster_widths", f"there are {len(sizes)} clusters and {len(widths)} widths, {widths}"
    return None


def tails_within_the_row(section: Section, sections: list[Section]) -> Broken:
    """A tail processes a share of the positions of a row, at most all of them."""
    share = section.settings["tail_share"]
    return ("tail_share", f"expected a float above 0 and at most 1; got {share}") if share > 1 else None


#: (families, kinds, function). Families and kinds are shell patterns.
CONSTRAINTS: tuple[tuple[str, str, Callable[[Section, list[Section]], Broken]], ...] = (
    ("experiment", "*", room_for_words),
    ("model", "*", heads_divide_width),
    ("*attention", "*", heads_divide_width),
    ("*attention", "linformer", rank_within_length),
    ("*attention", "*", distances_beyond_the_exact),
    ("*attention", "*_convolution", filters_divide_width),
    ("batching", "packed", no_mixing_of_packed),
    ("batching", "packed", one_example_a_row),
    ("batching", "packed", one_example_a_pair),
    ("model", "transformer_encoder", a_state_a_token),
    ("model", "cloze_classifier", a_state_a_token),
    ("model", "vision_transformer", patches_fill_the_length),
    ("model", "vision_transformer", memories_for_a_decoder),
    ("model", "*_classifier", memories_for_a_decoder),
    ("model", "transformer_captioner", memories_for_a_decoder),
    ("model", "encoder_classifier", words_to_weigh),
    ("model", "pair_classifier", words_to_weigh),
    ("model", "image_classifier", words_to_weigh),
    ("model", "vision_transformer", a_class_token_to_read),
    ("model", "shared_transformer", layers_to_share),
    ("*attention", "temperature", a_diagonal_to_mask),
    ("encoder", "funnel", equal_blocks),
    ("encoder", "perceiver", inputs_for_the_latents),
    ("recurrent_decoder", "bahdanau", a_context_to_read),
    ("caption_decoder", "show_attend_tell", a_context_to_read),
    ("data", "naming", words_that_are_copied),
    ("data", "running_text", a_context_that_is_read),
    ("stack", "universal", steps_are_left),
    ("model", "recurrent", states_that_fit),
    ("model", "latent_alignment", states_that_fit),
    ("encoder", "*", steps_that_exist),
    ("decoder", "*", steps_that_exist),
    ("causal_stack", "*", steps_that_exist),
    ("prompted_stack", "*", steps_that_exist),
    ("recurrent_vocabulary", "source_and_target", a_row_for_each_source_word),
    ("vocabulary", "adaptive_*", clusters_cover_the_vocabulary),
    ("vocabulary", "adaptive_softmax", tails_within_the_row),
    ("mesh", "mesh", whole_mesh),
    ("parallel", "*", a_mesh_that_is_used),
    ("decoding", "sampling", nucleus_within_all),
    ("training", "*", replicas_on_a_mesh),
    ("training", "*", whole_accumulation_steps),
    ("training", "*", a_checkpoint_that_can_be),
    ("training", "*", a_checkpoint_to_choose),
    ("training", "*", best_by_what_training_scores),
    ("evaluation", "*", averaged_are_kept),
    ("optimizer", "sgd", nesterov_needs_momentum),
)


def broken(sections: list[Section]) -> Iterator[tuple[str, str]]:
    """The (full path, message) of every broken constraint. `sections[0]` is the root; parents are before children."""
    for families, kinds, function in CONSTRAINTS:
        for section in sections:
            if _concerns(families, kinds, section.family, section.kind):
                found = function(section, sections)
                if found is not None:
                    yield f"{section.path}.{found[0]}", found[1]


@cache
def _concerns(families: str, kinds: str, family: str, kind: str) -> bool:
    return fnmatchcase(family, families) and fnmatchcase(kind, kinds)
