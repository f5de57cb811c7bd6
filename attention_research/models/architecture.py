"""Describes the computation of a built model in the order of its operations, like Figure 1 of Vaswani et al. 2017.

The description is read from the modules: the branches of the blocks, the number of repetitions of each block, the
embeddings and the output layer. For a Transformer that outputs tokens it is complete: calling its parts in this order
gives the output of the model. It leaves out what a kind of `stack` other than `layers` does between the blocks. Other
models, slots, and the parts of a classifier after its encoder are lists of modules by name, not in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flax import nnx

from attention_research.layers.attention.one_sided import OneSided
from attention_research.layers.attention.unmasked import UnmaskedAttention
from attention_research.layers.block import Block, terms
from attention_research.layers.positions.none import NoPositions
from attention_research.layers.residuals.plain import PlainResidual
from attention_research.models.layered import Layered
from attention_research.models.perceiver_encoder import PerceiverEncoder
from attention_research.models.protocol import Model, ScoresTokens
from attention_research.models.transparent_encoder import TransparentEncoder

ENCODER_OUTPUT = "the encoder's output"


@dataclass(frozen=True)
class Step:
    """One operation: its name, the class of its module (empty for a plain function), and what it `reads` in addition to
    the output of the previous step."""

    name: str
    kind: str = ""
    reads: str = ""

    def __str__(self) -> str:
        said = [self.kind, f"reads {self.reads}" if self.reads else ""]
        return f"{self.name} ({', '.join(filter(None, said))})" if any(said) else self.name


@dataclass(frozen=True)
class Blocks:
    """`repeat` equal blocks in sequence. The step "add" adds the input of its branch."""

    repeat: int
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class Part:
    """The encoder, the decoder, or the output: the steps before its blocks, the blocks, and the steps after them."""

    name: str
    before: tuple[Step, ...]
    blocks: tuple[Blocks, ...] = ()
    after: tuple[Step, ...] = ()


def architecture(model: Model) -> tuple[Part, ...]:
    """The parts of a model of this package: of a stack, the branches in the order of computation, and of anything else
    the modules by name. `layers.structure.abstract` gives a model without allocating memory."""
    held = _held(model)
    stacks = {name: module for name, module in held.items() if isinstance(module, Layered)}
    if not stacks:
        return tuple(Part(name, _modules(module) or (Step(type(module).__name__),)) for name, module in held.items())
    scores = isinstance(model, ScoresTokens)  # a classifier has a source embedding but does not output tokens
    embedding = type(held["vocabulary" if scores else "embedding"]).__name__
    parts = []
    source = (Step("source embedding", embedding),)
    if scores and "features" in held:  # a captioner
        source = (
            Step("image features", type(held["features"]).__name__),
            Step("project", type(held["project"]).__name__),
        )
    if getattr(model, "class_token", None) is not None:
        source = (*source, Step("class token"))
    if "encoder" in stacks:
        parts.append(_stack("encoder", source, stacks["encoder"]))
    elif "encoder" in held:
        parts.append(Part("encoder", (*source, *_modules(held["encoder"]))))
    if "decoder" in stacks:
        parts.append(_stack("decoder", (Step(stacks["decoder"].reads, embedding),), stacks["decoder"]))
    if scores:
        return (*parts, Part("output", (Step("linear", embedding), Step("softmax"))))
    after = [(name, module) for name, module in held.items() if name not in ("embedding", "encoder")]
    return (*parts, *(Part(name, (Step(type(module).__name__),)) for name, module in after))


def _held(module: Any) -> dict[str, nnx.Module]:
    """The direct submodules of a module by attribute. Of a list, only the first one, with the number of modules in its
    name."""
    found: dict[str, nnx.Module] = {}
    for name, value in vars(module).items():
        if isinstance(value, nnx.List) and len(value) and isinstance(value[0], nnx.Module):
            found[f"{name} ({len(value)} x)" if len(value) > 1 else name] = value[0]
        elif isinstance(value, nnx.Module) and not isinstance(value, nnx.List):
            found[name] = value
    return found


def _modules(module: nnx.Module) -> tuple[Step, ...]:
    """One step for each module without submodules. Its name is the path to the module."""
    steps = []
    for name, child in _held(module).items():
        inner = _modules(child)
        steps += [Step(f"{name}.{one.name}", one.kind) for one in inner] or [Step(name, type(child).__name__)]
    return tuple(steps)


def _stack(name: str, source: tuple[Step, ...], stack: Layered) -> Part:
    positions = type(stack.positions).__name__
    added = () if isinstance(stack.positions, NoPositions) else (Step("positions", positions),)
    blocks = zip(stack.stack.repeats, stack.stack.segments, strict=True)
    described = tuple(Blocks(repeat, tuple(_branches(block, stack.writes))) for repeat, block in blocks)
    before = (*source, *added, Step("dropout"))
    after = () if stack.final_norm is None else (Step("norm", type(stack.final_norm).__name__),)
    if isinstance(stack, TransparentEncoder):
        after = (*after, Step("a weighted sum for each layer of the decoder", reads="the outputs of all layers"))
    if isinstance(stack, PerceiverEncoder):
        before = (*before, Step("norm", type(stack.input_norm).__name__), Step("latents"))
        reading = Blocks(1, tuple(_branches(stack.reader, False, reads="the input")))
        described = (reading, *described * stack.blocks) if stack.reads_once else (reading, *described) * stack.blocks
    return Part(name, before, described, after)


def _branches(block: Block, causal: bool, reads: str = ENCODER_OUTPUT) -> Iterator[tuple[Step, ...]]:
    for branch in block.branches:
        yield tuple(_sum([_step(*term, block, causal, reads) for term in terms(*step)]) for step in branch)


def _sum(steps: list[Step]) -> Step:
    """A single step as it is; several steps as one step whose name is their sum."""
    return steps[0] if len(steps) == 1 else Step(" + ".join(map(str, steps)))


def _step(kind: str, name: str, block: Block, causal: bool, memory: str) -> Step:
    module = getattr(block, name, None)
    if module is None:
        return Step(kind)
    if isinstance(module, PlainResidual):
        return Step("add")
    masked = _is_masked(module, kind, causal)
    reads = memory if kind == "cross_attention" else ""
    return Step(f"masked {kind}" if masked else kind, type(module).__name__, reads)


def _is_masked(module: Any, kind: str, causal: bool) -> bool:
    """Whether a layer hides later positions in a stack that does or does not decode."""
    causal = isinstance(module, OneSided) or (causal and not isinstance(module, UnmaskedAttention))
    return kind.endswith("self_attention") and causal


def masked_layers(model: Model, part: str, kind: str) -> tuple[bool, ...]:
    """Whether the child `kind` of each layer of a stack, such as "self_attention" of the "decoder", hides later
    positions. Empty if this part of the model is not a stack of blocks."""
    stack = model.writer() if part == "decoder" and hasattr(model, "writer") else getattr(model, part, None)
    if not isinstance(stack, Layered):
        return ()
    segments = zip(stack.stack.segments, stack.stack.repeats, strict=True)
    return tuple(_is_masked(getattr(block, kind, None), kind, stack.writes) for block, n in segments for _ in range(n))


def lines(parts: tuple[Part, ...]) -> list[str]:
    """The description as text, with one line for each branch."""
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
