"""Constraints between widths, lengths, heads and other sizes of a layer or a vocabulary."""

from __future__ import annotations

from attention_research import distance_buckets
from attention_research.constraints.section import Broken, Section


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


#: Families whose T5 buckets are bidirectional.
TWO_SIDED = ("encoder_attention", "prefix_attention")


def distances_beyond_the_exact(section: Section, sections: list[Section]) -> Broken:
    """T5's buckets have an exact distance and a larger one, in each of their directions (`distance_buckets`)."""
    settings = section.settings
    if not {"num_buckets", "max_distance"} <= settings.keys():
        return None
    buckets, distance = settings["num_buckets"], settings["max_distance"]
    return distance_buckets.impossible(buckets, distance, bidirectional=section.family in TWO_SIDED)


def filters_divide_width(section: Section, sections: list[Section]) -> Broken:
    """Each filter of a convolution serves the same number of channels (Wu et al. 2019, section 3)."""
    width, filters = section.settings["width"], section.settings["num_filters"]
    if filters is None or width % filters == 0:
        return None
    return "num_filters", f"{filters} filters do not divide the width {width}"


def a_diagonal_to_mask(section: Section, sections: list[Section]) -> Broken:
    """The diagonal of attention pairs a position with itself only in the self-attention of an encoder."""
    if not section.settings["masks_diagonal"] or section.family == "encoder_attention":
        return None
    return "masks_diagonal", "only the self-attention of an encoder can hide a position from itself"


def room_for_words(section: Section, sections: list[Section]) -> Broken:
    """Ids 0 to 3 are padding, BOS, EOS and unknown. Experiments with images only have no vocabulary."""
    if "vocabulary_size" not in section.settings:
        return None
    size = section.settings["vocabulary_size"]
    return ("vocabulary_size", f"{size} leaves no room beside the 4 special tokens") if size <= 4 else None


def a_row_for_each_source_word(section: Section, sections: list[Section]) -> Broken:
    """Source and target share a tokenizer, so the table of the source has a row for each of its words."""
    rows, words = section.settings["source_vocabulary_size"], section.settings["vocabulary_size"]
    if rows is None or rows >= words:
        return None
    return "source_vocabulary_size", f"{rows} rows are too few; both languages share a tokenizer of {words} words"


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
