"""Constraints on encoders: the states that they give, their layers, and the steps of blocks."""

from __future__ import annotations

from difflib import get_close_matches

from attention_research.constraints.section import Broken, Section


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


def inputs_for_the_latents(section: Section, sections: list[Section]) -> Broken:
    """The latents of a Perceiver read the input where the steps have self-attention."""
    if any("self_attention" in terms.split("+") for branch in section.settings["steps"] for terms in branch):
        return None
    return "steps", "the latents of a Perceiver read the input in the step self_attention, which is missing"


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
