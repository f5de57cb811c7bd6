"""What a published size counts, from the shapes of the module that `train` would build."""

from __future__ import annotations

import math
from pathlib import Path

from ..lra2020.step_cost import of_trial


def measure_counts(*, workdir: Path, seed: int, **_: object) -> dict[str, int]:
    """{"parameters", "without_head" (all but the layer of the classes)}, of the first seed only."""
    from attention_research.config import build
    from attention_research.layers.structure import abstract

    if seed:
        return {}
    constructor = build(of_trial(workdir).resolved["model"], "model")
    _, parameters, _ = abstract(lambda rngs: constructor(rngs=rngs))
    count = lambda *beginning: sum(math.prod(x.shape) for name, x in parameters.items() if name.startswith(beginning))
    return {"parameters": count(""), "without_head": count("") - count("head.")}
