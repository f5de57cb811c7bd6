"""Constraints on training, its checkpoints, its evaluations and decoding."""

from __future__ import annotations

from attention_research import checkpoint_choice
from attention_research.constraints.section import Broken, Section


def nesterov_needs_momentum(section: Section, sections: list[Section]) -> Broken:
    """Without momentum, a Nesterov step would be a plain gradient step."""
    settings = section.settings
    if settings["nesterov"] and not settings["momentum"]:
        return "nesterov", "a Nesterov step needs momentum; set momentum above 0"
    return None


def whole_accumulation_steps(section: Section, sections: list[Section]) -> Broken:
    """All accumulation steps process equal parts of the batch."""
    if "accumulation_steps" not in section.settings:
        return None
    rows, parts = section.settings["batch_size"], section.settings["accumulation_steps"]
    return ("accumulation_steps", f"{parts} does not divide batch_size {rows}") if rows % parts else None


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
    if checkpoint_choice.is_choice(checkpoint_choice.read(wanted)):
        return None
    return "initial_checkpoint", f"expected {checkpoint_choice.EXPECTED}; got {wanted!r}"


def nucleus_within_all(section: Section, sections: list[Section]) -> Broken:
    """`top_p` is a probability."""
    top_p = section.settings["top_p"]
    return ("top_p", f"expected a float above 0 and at most 1; got {top_p}") if top_p and top_p > 1 else None
