"""Constraints on the mesh, and on what is split over it."""

from __future__ import annotations

from attention_research.constraints.section import Broken, Section
from attention_research.division import uneven_lengths, uneven_rows

#: The mesh axes over which the rows of a batch are split, as in `parallel.rules`.
ROW_AXES = ("data", "fsdp", "expert")
#: Kinds of layers that run on each device's share of the positions. The others are split by XLA, which pads them.
ON_A_SHARE = ("ring", "product_key_memory")
#: (family, kind) -> the setting with the number of states, for parts whose states are not the positions of a row.
STATES = {
    ("model", "vision_transformer"): "max_length",
    ("encoder", "perceiver"): "num_latents",
    ("encoder", "slots"): "num_slots",
}


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


def rows_for_each_device(section: Section, sections: list[Section]) -> Broken:
    """Devices have equal parts of a batch. The size of a mesh axis of -1 is known on the machine only."""
    meshes = [other for other in sections if other.family == "mesh"]
    if "batch_size" not in section.settings or not meshes:
        return None
    sizes = {axis: meshes[0].settings.get(axis, 1) for axis in ROW_AXES}
    parts = section.settings.get("accumulation_steps", 1)
    wrong = uneven_rows(section.settings["batch_size"], sizes, parts)
    return ("batch_size", wrong) if wrong else None


def states_for_each_device(section: Section, sections: list[Section]) -> Broken:
    """Layers of `ON_A_SHARE` have equal parts of the states of an encoder, such as the latents of a Perceiver or the
    pooled states of a Funnel."""
    for part in sections:
        encoder = f"{part.path}{'.encoder' * (part.family == 'model')}."
        split = [one for one in sections if one.path.startswith(encoder) and one.kind in ON_A_SHARE]
        name, lengths = _states(part, split, sections)
        if not lengths or not split:
            continue
        states = f"{part.path} ({name}), which {split[0].kind} splits"
        if wrong := uneven_lengths(lengths, section.settings["sequence"], states):
            return "sequence", wrong
    return None


def _states(part: Section, split: list[Section], sections: list[Section]) -> tuple[str, list[int]]:
    """(the setting that determines the numbers of states of a part, the numbers), none if they are those of a batch."""
    if name := STATES.get((part.family, part.kind)):
        return name, [part.settings[name]]
    if part.kind != "funnel":
        return "", []
    patches = [one.settings["max_length"] for one in sections if one.kind == "vision_transformer"]
    buckets = [length for one in sections if one.kind == "buckets" for length in one.settings["boundaries"]]
    # The self-attention of a block that halves the length comes before the halving.
    blocks, one_each = part.settings["blocks"], part.settings["num_layers"] == part.settings["blocks"]
    halvings = blocks - 1 if one_each and all(one.family.endswith("attention") for one in split) else blocks
    return "blocks", [-(-length // 2**n) for length in patches or buckets for n in range(1, halvings)]
