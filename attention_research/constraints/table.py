"""The constraints, with the families and kinds to which each applies, and the check of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache

from attention_research.constraints import data, encoders, execution, lengths, packing, recurrent, shapes, training
from attention_research.constraints.section import Broken, Section

#: (families, kinds, function). Families and kinds are shell patterns.
CONSTRAINTS: tuple[tuple[str, str, Callable[[Section, list[Section]], Broken]], ...] = (
    ("experiment", "*", shapes.room_for_words),
    ("model", "*", shapes.heads_divide_width),
    ("*attention", "*", shapes.heads_divide_width),
    ("*attention", "linformer", shapes.rank_within_length),
    ("*attention", "*", shapes.distances_beyond_the_exact),
    ("*attention", "*_convolution", shapes.filters_divide_width),
    ("batching", "*", data.rows_hold_an_example),
    ("batching", "packed", packing.no_mixing_of_packed),
    ("batching", "packed", packing.no_ring_of_packed),
    ("batching", "packed", packing.one_example_a_row),
    ("batching", "packed", packing.one_example_a_pair),
    ("model", "transformer_encoder", encoders.a_state_a_token),
    ("model", "cloze_classifier", encoders.a_state_a_token),
    ("model", "vision_transformer", shapes.patches_fill_the_length),
    ("positions", "*", lengths.a_table_for_each_position),
    ("*_attention", "*", lengths.a_table_for_each_position),
    ("model", "recurrent_language_model", lengths.a_table_for_each_position),
    ("model", "vision_transformer", encoders.memories_for_a_decoder),
    ("model", "*_classifier", encoders.memories_for_a_decoder),
    ("model", "transformer_captioner", encoders.memories_for_a_decoder),
    ("model", "encoder_classifier", encoders.words_to_weigh),
    ("model", "pair_classifier", encoders.words_to_weigh),
    ("model", "image_classifier", encoders.words_to_weigh),
    ("model", "vision_transformer", encoders.a_class_token_to_read),
    ("model", "shared_transformer", encoders.layers_to_share),
    ("*attention", "temperature", shapes.a_diagonal_to_mask),
    ("encoder", "funnel", encoders.equal_blocks),
    ("encoder", "perceiver", encoders.inputs_for_the_latents),
    ("recurrent_decoder", "bahdanau", recurrent.a_context_to_read),
    ("caption_decoder", "show_attend_tell", recurrent.a_context_to_read),
    ("data", "naming", data.words_that_are_copied),
    ("data", "running_text", data.a_context_that_is_read),
    ("stack", "universal", encoders.steps_are_left),
    ("model", "recurrent", recurrent.states_that_fit),
    ("model", "latent_alignment", recurrent.states_that_fit),
    ("encoder", "*", encoders.steps_that_exist),
    ("decoder", "*", encoders.steps_that_exist),
    ("causal_stack", "*", encoders.steps_that_exist),
    ("prompted_stack", "*", encoders.steps_that_exist),
    ("recurrent_vocabulary", "source_and_target", shapes.a_row_for_each_source_word),
    ("vocabulary", "adaptive_*", shapes.clusters_cover_the_vocabulary),
    ("vocabulary", "adaptive_softmax", shapes.tails_within_the_row),
    ("mesh", "mesh", execution.whole_mesh),
    ("mesh", "mesh", execution.states_for_each_device),
    ("parallel", "*", execution.a_mesh_that_is_used),
    ("decoding", "sampling", training.nucleus_within_all),
    ("training", "*", execution.replicas_on_a_mesh),
    ("training", "*", training.whole_accumulation_steps),
    ("training", "*", execution.rows_for_each_device),
    ("training", "*", training.a_checkpoint_that_can_be),
    ("training", "*", training.a_checkpoint_to_choose),
    ("training", "*", training.best_by_what_training_scores),
    ("evaluation", "*", training.averaged_are_kept),
    ("optimizer", "sgd", training.nesterov_needs_momentum),
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
