"""What a built model computes, part by part in the order of computation, as Vaswani et al. 2017 draw it in Figure 1.

Read from the modules themselves: the branches of the blocks, how often a stack repeats them, what embeds and what gives
the logits. The tree is complete: its parts, called in that order, give what the model gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flax import nnx

from attention_research.layers.attention.one_sided import OneSidedAttention
from attention_research.layers.attention.unmasked import UnmaskedAttention
from attention_research.layers.block import Block, terms
from attention_research.layers.positions.none import NoPositions
from attention_research.layers.residuals.plain import PlainResidual
from attention_research.models.layered import Layered
from attention_research.models.protocol import Model, ScoresTokens

ENCODER_OUTPUT = "the encoder's output"


@dataclass(frozen=True)
class Step:
    """One operation: its name, the class of its module (none: a plain function), and what it `reads` beside the value
    that the step before it gave."""

    name: str
    kind: str = ""
    reads: str = ""

    def __str__(self) -> str:
        said = [self.kind, f"reads {self.reads}" if self.reads else ""]
        return f"{self.name} ({', '.join(filter(None, said))})" if any(said) else self.name


@dataclass(frozen=True)
class Blocks:
    """`repeat` equal blocks, one after the other; "add" adds the value with which its branch began."""

    repeat: int
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class Part:
    """The encoder, the decoder, or the output: what comes before its blocks, the blocks, what comes after them."""

    name: str
    before: tuple[Step, ...]
    blocks: tuple[Blocks, ...] = ()
    after: tuple[Step, ...] = ()


def architecture(model: Model) -> tuple[Part, ...]:
    """The parts of a model of this package (`layers.structure.abstract` gives one without memory): of a Transformer its
    branches in the order of computation, of another model its modules by name."""
    held = _held(model)
    stacks = {name: module for name, module in held.items() if isinstance(module, Layered)}
    if not stacks:
        return tuple(Part(name, _modules(module) or (Step(type(module).__name__),)) for name, module in held.items())
    scores = isinstance(model, ScoresTokens)  # a classifier embeds its source, and gives no tokens
    embedding = type(held["vocabulary" if scores else "embedding"]).__name__
    parts = []
    if "encoder" in stacks:
        parts.append(_stack("encoder", Step("source embedding", embedding), stacks["encoder"]))
    if "decoder" in stacks:
        parts.append(_stack("decoder", Step(stacks["decoder"].reads, embedding), stacks["decoder"]))
    if scores:
        return (*parts, Part("output", (Step("linear", embedding), Step("softmax"))))
    after = [(name, module) for name, module in held.items() if name not in ("embedding", "encoder")]
    return (*parts, *(Part(name, (Step(type(module).__name__),)) for name, module in after))


def _held(module: Any) -> dict[str, nnx.Module]:
    """The modules that a module holds itself, by attribute; of a list of them the first, with how many there are."""
    found: dict[str, nnx.Module] = {}
    for name, value in vars(module).items():
        if isinstance(value, nnx.List) and len(value) and isinstance(value[0], nnx.Module):
            found[f"{name} ({len(value)} x)" if len(value) > 1 else name] = value[0]
        elif isinstance(value, nnx.Module) and not isinstance(value, nnx.List):
            found[name] = value
    return found


def _modules(module: nnx.Module) -> tuple[Step, ...]:
    """One step a module that has none inside; what stands between is in its name."""
    steps = []
    for name, child in _held(module).items():
        inner = _modules(child)
        steps += [Step(f"{name}.{one.name}", one.kind) for one in inner] or [Step(name, type(child).__name__)]
    return tuple(steps)


def _stack(name: str, embedding: Step, stack: Layered) -> Part:
    positions = type(stack.positions).__name__
    added = () if isinstance(stack.positions, NoPositions) else (Step("positions", positions),)
    blocks = zip(stack.stack.repeats, stack.stack.segments, strict=True)
    return Part(
        name,
        (embedding, *added, Step("dropout")),
        tuple(Blocks(repeat, tuple(_branches(block, stack.writes))) for repeat, block in blocks),
        () if stack.final_norm is None else (Step("norm", type(stack.final_norm).__name__),),
    )


def _branches(block: Block, causal: bool) -> Iterator[tuple[Step, ...]]:
    for branch in block.branches:
        yield tuple(_sum([_step(*term, block, causal) for term in terms(*step)]) for step in branch)


def _sum(steps: list[Step]) -> Step:
    """The step itself, or one that says what is added."""
    return steps[0] if len(steps) == 1 else Step(" + ".join(map(str, steps)))


def _step(kind: str, name: str, block: Block, causal: bool) -> Step:
    module = getattr(block, name, None)
    if module is None:
        return Step(kind)
    if isinstance(module, PlainResidual):
        return Step("add")
    causal = isinstance(module, OneSidedAttention) or (causal and not isinstance(module, UnmaskedAttention))
    masked = kind.endswith("self_attention") and causal
    reads = ENCODER_OUTPUT if kind == "cross_attention" else ""
    return Step(f"masked {kind}" if masked else kind, type(module).__name__, reads)


def lines(parts: tuple[Part, ...]) -> list[str]:
    """The tree as text: a line a branch."""
    found = []
    row = lambda steps: " > ".join(map(str, steps))
    for part in parts:
        found.append(f"{part.name}: {row(part.before)}")
        for blocks in part.blocks:
            found.append(f"  {blocks.repeat} x")
            found += [f"    {row(branch)}" for branch in blocks.branches]
        if part.after:
            found.append(f"  {row(part.after)}")
    return found
