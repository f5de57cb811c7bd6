"""Attention on unordered sets, and a recurrence: accuracy on questions about a set, in the same sets' other orders.

    attention-research reproduce lectures/sets --scale=cpu

The largest element, how often one symbol occurs, whether any occurs twice (`tasks`): two blocks of
self-attention without positions and with sinusoids, a gated recurrent unit, and the mean of the embeddings, each
trained once on sets in any order and once on sets in ascending order alone, and asked about the same test sets in
several random orders. Trained by `training.fitting` on sets drawn as they are needed: there is no
text here, and every seed draws its own test sets.
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
        Column("measure.spread", "spread over orders", fixed(1, 100), better="lower"),
        Column("measure.changed", "answers that change, %", fixed(1, 100), better="lower"),
        Column("measure.sorted_ascending", "trained on sorted, in order", fixed(1, 100), better="higher"),
        Column("measure.sorted_accuracy", "trained on sorted, any order", fixed(1, 100), better="higher"),
        Column("measure.sorted_changed", "trained on sorted, answers that change, %", fixed(1, 100), better="lower"),
        Column("measure.majority", "one answer always", fixed(1, 100), spread=False),
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
        "Sets of 4 to 10 of 16 symbols; eight random orders of each of 1,024 test sets. An answer changes if it is not "
        "the same in all eight; the spread is from the best order to the worst.",
        "Trained on sorted: on sets in ascending order alone; asked about test sets in that order, and in random ones.",
    ),
)
