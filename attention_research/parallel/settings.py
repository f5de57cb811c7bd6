"""The config section `parallel`: how a train step is executed, and on which mesh."""

from __future__ import annotations

from typing import Literal

from attention_research.signatures import Child, Positive


class Mesh:
    """The sizes of the mesh axes. With `data=-1` that axis takes the devices that remain.

    The rows of a batch are split over `data`, `fsdp` and `expert`, and its positions over `sequence`. Parameters are
    split over `fsdp` and `tensor` (`parallel.rules`), and those of experts over `expert` too. Only attention of kind
    `ring` never gathers a whole sequence.
    """

    def __init__(
        self,
        *,
        data: int = -1,
        fsdp: Positive = 1,
        tensor: Positive = 1,
        sequence: Positive = 1,
        expert: Positive = 1,
    ):
        self.sizes = {"data": data, "fsdp": fsdp, "tensor": tensor, "sequence": sequence, "expert": expert}


class Parallel:
    """How a step runs: `jit` (alias `pjit`) as one program on a mesh, `pmap` as a copy on each local device.

    `strategy` says how a step runs, and `mesh` has the sizes of the mesh axes.
    """

    def __init__(self, *, strategy: Literal["jit", "pjit", "pmap"] = "jit", mesh: Child["mesh"] = "mesh"):
        self.strategy = "jit" if strategy == "pjit" else strategy
        self.mesh = mesh()
