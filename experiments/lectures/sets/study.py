"""Attention and recurrence on unordered sets: accuracy on questions about a set, in several orders of its elements.

    attention-research reproduce lectures/sets --scale=cpu

The tasks (`tasks`) are the largest element, how often one symbol occurs, and whether any symbol occurs twice. The
models are two blocks of self-attention without positions and with sinusoids, a gated recurrent unit, and the mean of
the embeddings. Each is trained once on sets in any order and once only on sets in ascending order, and tested on the
same test sets in several random orders. Models are trained by `training.fitting` on randomly drawn sets, and every seed
draws its own test sets.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence

from .models import measure_sets
from .tasks import TASKS
from .verdicts import MODELS, draw_orders, suits_sets

ROWS = tuple(
    Row(f"{task}_{model}", f"{task}: {name}", settings={"task": task, "model": model},
        scales=None if (task, model) in (("largest", "attention"), ("count", "rnn")) else ("cpu", "gpu"))
    for task in TASKS for model, name in MODELS.items()
)  # fmt: skip
CPU = {
    "sets": (16, 4, 10),
    "sizes": {"width": 64, "num_heads": 4, "num_layers": 2, "recurrent_width": 112, "hidden_width": 128},
    "steps": 1500,
    "batch_size": 64,
    "learning_rate": 0.002,
    "examples": 1024,
    "orders": 8,
}
SMALL = {"width": 8, "num_heads": 2, "num_layers": 1, "recurrent_width": 8, "hidden_width": 8}
SMOKE = {**CPU, "sizes": SMALL, "steps": 4, "batch_size": 8, "examples": 32, "orders": 3}
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings=SMOKE),
        "cpu": Scale(seeds=3, jobs=2, settings=CPU),
        "gpu": Scale(seeds=3, settings={**CPU, "sets": (64, 8, 32), "steps": 20_000, "batch_size": 256}),
    },
    stages=(measure(measure_sets),),
    columns=(
        Column("measure.parameters", "parameters", fixed(0), spread=False),
        Column("measure.accuracy", "accuracy, %", fixed(1, 100), better="higher"),
        Column("measure.spread", "spread over orders, %", fixed(1, 100), better="lower"),
        Column("measure.changed", "changed answers, %", fixed(1, 100), better="lower"),
        Column("measure.sorted_ascending", "sorted training, sorted test, %", fixed(1, 100), better="higher"),
        Column("measure.sorted_accuracy", "sorted training, any order, %", fixed(1, 100), better="higher"),
        Column("measure.sorted_changed", "sorted training, changed answers, %", fixed(1, 100), better="lower"),
        Column("measure.majority", "majority answer, %", fixed(1, 100), spread=False),
    ),
    claims="../../claims.csv",
    competence=(
        Competence("largest_attention", "measure.accuracy", line=0.9, higher=True, rows=("largest_*",)),
        Competence("count_attention", "measure.accuracy", line=0.9, higher=True, rows=("count_*",)),
        Competence("duplicate_attention", "measure.accuracy", line=0.9, higher=True, rows=("duplicate_*",)),
    ),
    verdicts={"attention-learns-on-sets": suits_sets},
    figures=(draw_orders,),
    notes=(
        "Sets have 4 to 10 elements out of 16 symbols; each of 1,024 test sets is tested in eight random orders. An "
        "answer counts as changed if it is not the same in all eight orders. The spread is the difference between the "
        "best and the worst order.",
        "Sorted training: trained only on sets in ascending order, tested in ascending order and in random orders.",
    ),
)
