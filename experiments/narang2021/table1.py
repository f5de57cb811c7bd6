"""Narang et al. 2021, Table 1: 52 Transformers, counted exactly and trained side by side.

    attention-research inspect   --study=narang2021/table1 --scale=paper --json
    attention-research reproduce narang2021/table1 --scale=cpu --rows=vanilla_transformer,geglu

Each row is pre-trained, evaluated on held-out text early and at the end, and fine-tuned on three tasks (`downstream`).
At `cpu` the text is the characters of film reviews, and nothing is fine-tuned. At `cpu` and `gpu` all rows have the
optimizer and the schedule of the baseline. The release trains four rows with Adam: these also have a row with Adam, to
be compared with the baseline with Adam.

`parameters` counts the modules with relative position biases. `parameters_learned_positions` counts them with a learned
table of 512 positions instead (the paper's Table 2), with one table for both stacks, or one for each stack if their
embeddings are separate. The paper has the same column in both tables, and no single rule gives all of its cells:
`rules` says which of four rules give the cell of a row (relative or learned positions, rounded or floored).

`operations`, in units of 10^12, are a third of those that Mesh TensorFlow would log for a training step on 128
sequences of 512 and 114 tokens (`accounting.operations`): look-ups count as one-hot products, and causal attention
counts in full. The paper also has the same values in both tables: `operations_rules` says which positions give the
cell. If only learned positions give it, `operations` are theirs. `operations_miss` explains why neither does.
`operations_forward` are those of the forward pass; `operations_relative` and `operations_learned_positions` are those
of the two kinds of positions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_research.config import Config
from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence

from .answer import BASELINE, COMPARED, scatter
from .downstream import COLUMNS as DOWNSTREAM
from .downstream import STAGES as FINE_TUNINGS
from .rows import one_optimizer, table
from .sizes import CPU, GPU, PAPER, SMOKE
from .verdicts import CLAIMED, VERDICTS

if TYPE_CHECKING:
    from attention_research.accounting.operations import Operations

CONFIG = "configs/text_to_text/narang2021.py"
INPUTS, TARGETS, POSITIONS = 512, 114, 512
#: Why the operations of a row do not give the paper's cell.
MISSES = {
    "universal_transformer": "its products of matrices and look-ups print 40.0; the gates' products of numbers add 0.1",
    "product_key_memory": "the memory's sizes are not published; those that come nearest are 0.1 % above the cell",
}


def slug(name: str) -> str:
    """Returns the row id of a published name.

    >>> slug("+ Factorized & shared embeddings")
    'plus_factorized_shared_embeddings'
    """
    return re.sub(r"[^a-z0-9]+", "_", name.lower().replace("+ ", "plus ")).strip("_")


def counted(config: Config, rows: int, inputs: int, targets: int) -> tuple[Operations, dict[str, int]]:
    """Counts the operations on `rows` of the given lengths, and the size of each parameter, of the model that `train`
    would build."""
    import jax

    from attention_research.accounting.operations import count_operations
    from attention_research.config import build_experiment
    from attention_research.layers.structure import abstract

    parts = build_experiment(config)
    structure, arrays, statistics = abstract(lambda rngs: parts.model(rngs=rngs))

    def forward(
        parameters: Any, batch: Any
    ) -> Any:  # returns the encoder outputs too, so that they count even if nothing reads them
        model = structure.merge(parameters, statistics)  # with a key, so that experts have the capacity of training
        values, aux = model.log_likelihood(batch, key=jax.random.key(0))
        return values["log_likelihood"], [segment["hidden"] for segment in aux["encoder"].values()]

    packed = config.resolved["model"]["encoder"]["kind"] != "funnel"  # as in the release
    found = count_operations(forward, arrays, batch(rows, inputs, targets, packed))
    return found, {name: math.prod(x.shape) for name, x in arrays.items()}


def losses(workdir: Path, seed: int) -> dict[str, float]:
    """Returns the log-perplexity per token of held-out text, early (after an eighth of the steps, as in the paper) and
    at the end."""
    from attention_research.training.metrics_log import read_metrics

    validated = [line for line in read_metrics(workdir) if line["split"] == "validation" and line["seed"] == seed]
    by_step = {line["step"]: line["negative_log_likelihood"] for line in validated}
    last = max(by_step)
    return {"early_loss": by_step[last // 8], "final_loss": by_step[last]}


def counts(config: Config) -> dict[str, Any]:
    """Returns the counts that `inspect` shows for a row in addition to parameters and FLOPs."""
    training, model = (config.resolved[section] for section in ("training", "model"))
    rows, longest = training["batch_size"] // training["accumulation_steps"], model["max_length"]
    inputs, targets = min(INPUTS, longest), min(TARGETS, longest)
    found, sizes = counted(config, rows, inputs, targets)
    read = rows * (inputs + targets) * POSITIONS * model["width"]
    return {
        "parameters_learned_positions": sum(sizes.values()) + learned_positions(model, sizes),
        "operations": found.third_of_training / 1e12,
        "operations_forward": found.forward / 1e12,
        "operations_relative": found.third_of_training / 1e12,
        "operations_learned_positions": (found.third_of_training + read) / 1e12,
    }


def batch(rows: int, inputs: int, targets: int, packed: bool) -> dict[str, Any]:
    """Returns the shapes of the tokens of a step and, if rows are packed, of the boundaries of examples."""
    import jax
    import jax.numpy as jnp

    names = ("", "_segments", "_positions") if packed else ("",)
    sides = {"source": inputs, "target": targets}
    return {f"{side}{name}": jax.ShapeDtypeStruct((rows, sides[side]), jnp.int32) for side in sides for name in names}


def learned_positions(model: dict[str, Any], sizes: dict[str, int]) -> int:
    """The number of parameters of a learned position table, minus those of the relative biases that it replaces."""
    apart = model["vocabulary"]["kind"] in ("t5_untied", "t5_untied_encoder")
    biases = sum(size for name, size in sizes.items() if re.search(r"shared\.table$", name))
    keeps = "synthesizer" in model["self_attention"]["kind"]
    return (2 if apart else 1) * POSITIONS * model["width"] - (0 if keeps else biases)


def against(row: Row, ours: Mapping[str, Any], printed: Mapping[str, str]) -> dict[str, Any]:
    """Returns which rules give the paper's parameters, in millions (1100 has two digits), and its operations."""
    if not printed:
        return {}
    parameters, digits = int(printed["million parameters"]), 100 if int(printed["million parameters"]) >= 1000 else 1
    found = {"relative": ours["parameters"], "learned": ours["parameters_learned_positions"]}
    ways = {"rounded": lambda x: math.floor(x + 0.5), "floored": math.floor}
    fit = [
        f"{which}, {way}"
        for which, count in found.items()
        for way, cut in ways.items()
        if cut(count / 1e6 / digits) * digits == parameters
    ]
    operations = {
        "relative": ours["operations_relative"],
        "learned": ours["operations_learned_positions"],
    }
    prints = [which for which, count in operations.items() if f"{count:.1f}" == printed["trillion operations"]]
    told = {"operations": operations[prints[0]]} if prints else {"operations_miss": MISSES.get(row.id, "")}
    return {"rules": fit, "operations_rules": prints, **told}


SIZED = {"paper": table(PAPER), "gpu": one_optimizer(GPU), "cpu": one_optimizer(CPU), "smoke": table(SMOKE)}
EARLY_LOSS = Column("measure.early_loss", "early loss", fixed(3), better="lower")
FINAL_LOSS = Column("measure.final_loss", "final loss", fixed(3), better="lower")
PRE_TRAINING = (train, evaluate, measure(losses))
PRE_TRAINED = (PARAMETERS, FLOPS, STEPS_PER_SECOND, EARLY_LOSS, FINAL_LOSS, PERPLEXITY)


def row(name: str) -> Row:
    """The row of the table with its overrides at every scale."""
    at = {scale: rows[name] for scale, rows in SIZED.items() if name in rows}
    return Row(slug(name), name, at.get("paper", {}), at=at, scales=None if len(at) == len(SIZED) else tuple(at))


STUDY = Study(
    rows=tuple(row(name) for name in SIZED["cpu"]),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1),
        "cpu": Scale(
            f"{CONFIG}:cpu",
            seeds=1,
            more_seeds=dict.fromkeys(CLAIMED, 4),
            stages=PRE_TRAINING,
            columns=PRE_TRAINED,
        ),
        "gpu": Scale(f"{CONFIG}:gpu", seeds=3, replicas=True),
        "paper": Scale(f"{CONFIG}:paper", seeds=5),
    },
    stages=(*PRE_TRAINING, *FINE_TUNINGS),
    columns=(*PRE_TRAINED, *DOWNSTREAM),
    published="table1.csv",
    compared={"measure.early_loss": "early loss", "measure.final_loss": "final loss"},
    claims="../claims.csv",
    competence=(Competence(BASELINE, "evaluate.perplexity", "trigram"),),
    verdicts=VERDICTS,
    figures=tuple(partial(scatter, what) for what in COMPARED),
    counts=counts,
    against=against,
)
