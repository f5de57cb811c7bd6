"""Constraints on recurrent encoders and decoders."""

from __future__ import annotations

from attention_research.constraints.section import Broken, Section


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
