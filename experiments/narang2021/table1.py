"""Narang et al. 2021, Table 1: 52 Transformers, counted exactly.

    attention-research inspect --study=narang2021/table1 --scale=paper --json

`parameters` are those of the modules with relative position biases, `parameters_learned_positions` with a learned table
of 512 positions in their place (the paper's Table 2), one for both stacks, or one for each where their embeddings are
apart. The paper prints the same column for both tables, and no single rule gives all of it: `rules` says which of four
print a row's cell (relative or learned, rounded or floored). `operations` are multiply-adds of a forward pass over 128
sequences of 512 and 114 tokens, in units of 10^12, look-ups as one-hot products (`accounting.operations`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from attention_research.config import Config
from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import LOSS, PARAMETERS, STEPS_PER_SECOND

from .rows import TABLE

CONFIG = "configs/text_to_text/narang2021.py"
ROWS, INPUTS, TARGETS, POSITIONS = 128, 512, 114, 512


def slug(name: str) -> str:
    """The id of a printed name.

    >>> slug("+ Factorized & shared embeddings")
    'plus_factorized_shared_embeddings'
    """
    return re.sub(r"[^a-z0-9]+", "_", name.lower().replace("+ ", "plus ")).strip("_")


def counts(config: Config) -> dict[str, Any]:
    """What `inspect` says of a row beside its parameters and FLOPs."""
    import jax
    import jax.numpy as jnp

    from attention_research.accounting.operations import count_operations
    from attention_research.config import build_experiment
    from attention_research.layers.structure import abstract

    parts = build_experiment(config)
    structure, arrays, statistics = abstract(lambda rngs: parts.model(rngs=rngs))
    batch = {
        "source": jax.ShapeDtypeStruct((ROWS, INPUTS), jnp.int32),
        "target": jax.ShapeDtypeStruct((ROWS, TARGETS), jnp.int32),
    }

    def forward(parameters: Any, batch: Any) -> Any:
        model = structure.merge(parameters, statistics)  # with a key: experts' places are those of training
        return model.log_likelihood(batch, key=jax.random.key(0))[0]["log_likelihood"]

    sizes = {name: math.prod(x.shape) for name, x in arrays.items()}
    learned = sum(sizes.values()) + learned_positions(config.resolved["model"], sizes)
    return {
        "parameters_learned_positions": learned,
        "operations": count_operations(forward, arrays, batch) / 1e12,
    }


def learned_positions(model: dict[str, Any], sizes: dict[str, int]) -> int:
    """Parameters that a learned table of positions adds, less those of the relative biases that it replaces."""
    apart = model["vocabulary"]["kind"] in ("t5_untied", "t5_untied_encoder")
    biases = sum(size for name, size in sizes.items() if re.search(r"shared\.table$", name))
    keeps = "synthesizer" in model["self_attention"]["kind"]
    return (2 if apart else 1) * POSITIONS * model["width"] - (0 if keeps else biases)


def against(counted: Mapping[str, Any], printed: Mapping[str, str]) -> dict[str, Any]:
    """Which of the four rules print the paper's parameters, in millions (1100 to two digits), and whether the
    operations print its cell."""
    if not printed:
        return {}
    parameters, digits = int(printed["params_m"]), 100 if int(printed["params_m"]) >= 1000 else 1
    found = {"relative": counted["parameters"], "learned": counted["parameters_learned_positions"]}
    ways = {"rounded": lambda x: math.floor(x + 0.5), "floored": math.floor}
    fit = [
        f"{which}, {way}"
        for which, count in found.items()
        for way, cut in ways.items()
        if cut(count / 1e6 / digits) * digits == parameters
    ]
    return {"rules": fit, "operations_fit": f"{counted['operations']:.1f}" == printed["ops_t"]}


def row(name: str, overrides: dict[str, Any] | None) -> Row:
    """A row of the table; one that is not built has the paper's cells alone."""
    return Row(slug(name), name, overrides or {}, scales=() if overrides is None else None)


STUDY = Study(
    rows=tuple(row(name, overrides) for name, overrides in TABLE.items()),
    scales={"paper": Scale(f"{CONFIG}:paper", seeds=5)},
    columns=(PARAMETERS, STEPS_PER_SECOND, LOSS),
    published="table1.csv",
    counts=counts,
    against=against,
)
