"""Figure 1 of Vaswani et al. 2017 as a verdict: the model that a config builds has its parts, in its order."""

from __future__ import annotations

from typing import Any

from attention_research.config import Config
from attention_research.studies.results import Results
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, Verdict

#: Figure 1, from the bottom: the parts before the blocks, the branches of a block, and the parts after all blocks.
#: Dropout is not drawn (it is in section 5.4), and both stacks repeat their block N times.
DRAWN = {
    "encoder": (
        ("source embedding", "positions"),
        (("self_attention", "add", "norm"), ("feed_forward", "add", "norm")),
        (),
    ),
    "decoder": (
        ("target embedding, shifted right", "positions"),
        (
            ("masked self_attention", "add", "norm"),
            ("cross_attention", "add", "norm"),
            ("feed_forward", "add", "norm"),
        ),
        (),
    ),
    "output": (("linear", "softmax"), (), ()),
}


def built(config: Config) -> tuple[Any, int]:
    """Returns (the abstract model of a configuration, its number of parameters). Nothing is allocated."""
    from attention_research.config import build_experiment
    from attention_research.layers.structure import abstract

    parts = build_experiment(config)
    structure, parameters, statistics = abstract(lambda rngs: parts.model(rngs=rngs))
    return structure.merge(parameters, statistics), sum(x.size for x in parameters.values())


def drawn_order(config: Config) -> Verdict:
    """Compares the parts of the model that a configuration builds with Figure 1, block by block."""
    from attention_research.models.architecture import architecture, lines

    parts = architecture(built(config)[0])
    steps = [step for part in parts for blocks in part.blocks for branch in blocks.branches for step in branch]
    repeats = {part.name: [blocks.repeat for blocks in part.blocks] for part in parts if part.blocks}
    differences = [
        f"{name} differs"
        for name in dict.fromkeys([*DRAWN, *(part.name for part in parts)])
        if DRAWN.get(name) not in [_as_drawn(part) for part in parts if part.name == name]
    ]
    if repeats.get("encoder") != repeats.get("decoder"):
        differences.append("the stacks have different depths")
    if [step.name for step in steps if step.reads] != ["cross_attention"]:
        differences.append("the number of attentions of a block that read the encoder's output is not one")
    said = " | ".join(" ".join(line.split()) for line in lines(parts))
    return Verdict(FAILED if differences else HELD, [*differences, said])


def _as_drawn(part: Any) -> tuple:
    """Returns a part of the model in the form of `DRAWN`. If the blocks are not all equal, it returns all of them."""
    names = lambda steps: tuple(step.name for step in steps if step.name != "dropout")
    return names(part.before), tuple(names(b) for blocks in part.blocks for b in blocks.branches), names(part.after)


def architecture_figure(results: Results) -> Verdict:
    """The base model at the paper's sizes agrees with the figure of the paper. At `cpu` the norms are elsewhere."""
    base = next(row for row in results.study.rows if row.id == "base")
    return drawn_order(configuration(results.study, "paper", base))
