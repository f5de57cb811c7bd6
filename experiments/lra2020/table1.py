"""Tay et al. 2021 (Long Range Arena), Tables 1 and 2: score, speed and memory of nine attention mechanisms.

    attention-research reproduce lra2020/table1 --scale=cpu

A row is a mechanism on a task, with its test accuracy, and the speed and memory of one training step at the length of
the task. The rows "cost" measure one training step at 1,024 to 4,096 tokens of Text with batch size 1 and the settings
of the arena's code. Standard attention writes its scores to memory; one cost row has the package's blockwise kernel
instead.

`cpu` has ListOps and Image, with sequences a tenth to a quarter as long as in the arena. The other tasks are left out:
with the same budget standard attention stayed near chance on substitutes of Text (52.2 %; a constant class has 48),
Retrieval (50.9, 50) and Pathfinder (50, 50).
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PARAMETERS, Column, fixed, significant
from attention_research.studies.competence import Competence

from .mechanisms import CONFIG, MECHANISMS, RELEASED, SHORT, TASKS, TINY, variant
from .step_cost import measure_lengths, measure_step
from .table1_figures import draw_bubbles, draw_costs, draw_tasks
from .table1_verdicts import avoid_the_cost

LENGTHS = (1024, 2048, 4096)
#: The tasks that standard attention learns at `cpu`.
LEARNED = ("listops", "image")
#: The tasks whose released configuration is counted, and trained on an accelerator.
COUNTED = ("listops", "text")
SMOKED = ("standard", "linear")


def task_row(task: str, mechanism: str) -> Row:
    """The row of a mechanism on a task."""
    at = {"cpu": variant(task, mechanism, SHORT)} if task in LEARNED else {}
    if task == "listops" and mechanism in SMOKED:
        at["smoke"] = variant("smoke", mechanism, TINY)
    if task in COUNTED:
        at["gpu"] = at["paper"] = variant(f"{task}_base", mechanism, RELEASED)
    return Row(f"{task}_{mechanism}", f"{TASKS[task]}: {MECHANISMS[mechanism]}", at=at, scales=tuple(at))


def cost_row(mechanism: str, name: str, kind: str, **settings: str) -> Row:
    """The row of the cost of a mechanism's training step by length."""
    chosen = {kind: {**RELEASED[kind], **settings}}
    at = {"cpu": variant("text", kind, chosen), "gpu": variant("text_base", kind, chosen)}
    if mechanism in SMOKED:
        at["smoke"] = variant("smoke", kind, chosen)
    return Row(f"cost_{mechanism}", f"cost: {name}", at=at, scales=tuple(at), stages=(measure(measure_lengths),))


STUDY = Study(
    rows=(
        *(task_row(task, mechanism) for task in TASKS for mechanism in MECHANISMS),
        *(cost_row(mechanism, name, mechanism) for mechanism, name in MECHANISMS.items()),
        cost_row("standard_blockwise", "Transformer, blockwise", "standard", implementation="blockwise"),
        Row("cost_sparse", "Sparse Transformer", scales=()),
        Row("cost_longformer", "Longformer", scales=()),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2,
                       settings={"lengths": (16, 32), "batch_size": 1, "seconds": 0.0}),
        "cpu": Scale(f"{CONFIG}:listops", seeds=2, jobs=2, replicas=True,
                     settings={"lengths": LENGTHS, "batch_size": 1, "seconds": 1.0},
                     note="Two layers of width 64, 4 heads; 400 steps of 16 sequences (ListOps: 32)."),
        "gpu": Scale(f"{CONFIG}:listops_base", seeds=2,
                     settings={"lengths": (1024, 2048, 3072, 4096), "batch_size": 32, "seconds": 5.0}),
        "paper": Scale(f"{CONFIG}:listops_base", seeds=1, note="The released base configurations of ListOps and Text."),
    },
    stages=(train, evaluate, measure(measure_step)),
    columns=(
        PARAMETERS,
        Column("evaluate.accuracy", "accuracy", fixed(1), better="higher"),
        Column("evaluate.majority_accuracy", "majority class", fixed(1), spread=False),
        Column("measure.steps_per_second", "steps/s", significant(3), better="higher"),
        Column("measure.megabytes", "MB per step", significant(3), better="lower"),
        *(Column(f"measure.steps_per_second_{length}", f"steps/s, {length:,}", significant(3), better="higher")
          for length in LENGTHS),
        *(Column(f"measure.megabytes_{length}", f"MB per step, {length:,}", significant(3), better="lower")
          for length in LENGTHS),
    ),
    published="table1.csv",
    claims="../claims.csv",
    competence=tuple(
        Competence(f"{task}_standard", "evaluate.accuracy", "majority", margin=15, higher=True, rows=(f"{task}_*",))
        for task in dict.fromkeys((*LEARNED, *COUNTED))  # the others are not trained at any scale
    ),
    verdicts={"attention-without-all-pairs": avoid_the_cost},
    figures=(draw_bubbles, draw_tasks, draw_costs),
    notes=(
        "Steps/s and MB per step: one training step of one model, measured in its own process on full rows. MB is the "
        "memory of the compiled program with the optimizer state. The seeds of a row were trained together.",
        "Published: accuracy of Table 1, speed and memory of Table 2 at 4K tokens of Text (batch 32 on 16 TPU chips). "
        "The averages leave out Path-X, which every model failed. Sinkhorn's published 51.29 is 51.48 by its cells.",
    ),
)  # fmt: skip
