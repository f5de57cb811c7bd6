"""Measures the time of a compiled program by kind of instruction, from a trace of one run."""

from __future__ import annotations

import collections
import glob
import re
import tempfile
from collections.abc import Callable

COMPUTATION = re.compile(r"^(?:ENTRY )?(%[\w.-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?(%[\w.-]+) = .*? ([a-z][a-z-]*)\((.*)$")
CALLED = re.compile(r"calls=(%[\w.-]+)")
PRODUCTS, REDUCTIONS, MOVES = ("dot", "convolution"), ("reduce", "reduce-window"), ("gather", "scatter", "sort")
#: Instructions that only contain others. Their time is the sum of the times of their parts.
HOLDERS = ("while", "call", "conditional")


def kinds(hlo: str) -> dict[str, str]:
    """Instruction name -> "products", "reductions", "gathers" or "elementwise", from the compiled text.

    The kind of a fusion depends on its parts. "elementwise" includes copies and transposes.
    """
    inside: dict[str, set[str]] = collections.defaultdict(set)
    found: dict[str, tuple[str, str]] = {}
    computation = ""
    for line in hlo.splitlines():
        if header := COMPUTATION.match(line):
            computation = header[1]
        elif made := INSTRUCTION.match(line):
            inside[computation].add(made[2])
            called = CALLED.search(made[3])
            found[made[1].lstrip("%")] = (made[2], called[1] if called else "")

    def kind(opcode: str, called: str) -> str:
        parts = inside[called] | {opcode}
        for name, opcodes in (("products", PRODUCTS), ("gathers", MOVES), ("reductions", REDUCTIONS)):
            if parts & set(opcodes):
                return name
        return "elementwise"

    return {name: kind(*row) for name, row in found.items() if row[0] not in HOLDERS}


def milliseconds(hlo: str, run: Callable[[], object]) -> dict[str, float]:
    """Kind -> milliseconds in one call of `run`, which must wait for its result.

    An instruction that is shared by several threads counts once. Instructions that run concurrently are counted
    separately.
    """
    import jax

    kind = kinds(hlo)
    run()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run()
        (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        profile = jax.profiler.ProfileData.from_file(file)
        total: collections.Counter[str] = collections.Counter()
        for plane in profile.planes:
            for line in plane.lines:
                for event in line.events:
                    if event.name in kind:
                        total[kind[event.name]] += event.duration_ns / 1e6
    return {name: round(value, 1) for name, value in total.most_common()}
