"""He et al. 2015: a deeper plain network errs more in training already; with residual connections it does not.

    attention-research reproduce he2015/degradation --scale=cpu

The paper's CIFAR-10 networks of 20, 32, 44 and 56 layers, with identity shortcuts and without any, batch normalisation
in both: error on the training and the test split, and over training. At `cpu` on Fashion-MNIST at half its side, half
as wide and for 600 updates; `paper` is CIFAR-10 as printed, with 110 layers too. And exactly: what a block is whose
filters are zero, and what its Jacobian holds.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, STEPS_PER_SECOND, Column, fixed, significant
from attention_research.studies.competence import Competence

from .degradation_figures import draw_curves, draw_depths
from .degradation_verdicts import VERDICTS
from .measures import measure_errors, measure_identity
from .networks import CONFIG, GPU, KINDS

DEPTHS = (20, 32, 44, 56)
TRAINED = (train, evaluate, measure(measure_errors))


def networks() -> tuple[Row, ...]:
    """Both kinds at every depth; 110 layers at the paper's size alone."""
    found = []
    for depth in (*DEPTHS, 110):
        for kind, shortcut in KINDS.items():
            overrides = {"model.features.depth": depth, "model.features.shortcut.kind": shortcut}
            scales = ("paper",) if depth == 110 else ("cpu", "gpu", "paper") if depth in (32, 44) else None
            small = {"smoke": {**overrides, "model.features.depth": 8 if depth == 20 else 14}}
            found.append(Row(f"{kind}_{depth}", f"{kind}, {depth} layers", overrides, at=small, scales=scales))
    return tuple(found)


def printed() -> tuple[Row, ...]:
    """ImageNet's: the paper's cells alone."""
    return tuple(
        Row(f"imagenet_{kind}_{depth}", f"{kind}, {depth} layers, ImageNet", scales=())
        for kind in KINDS
        for depth in (18, 34)
    )


STUDY = Study(
    rows=(
        *networks(),
        *printed(),
        *(Row(f"exact_{kind}", f"{kind} block, exact", settings={"shortcut": shortcut},
              stages=(measure(measure_identity),))
          for kind, shortcut in KINDS.items()),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 32}),
        "cpu": Scale(f"{CONFIG}:fashion", seeds=3, jobs=2, settings={"examples": 5000}),
        "gpu": Scale(f"{CONFIG}:fashion", GPU, seeds=3, settings={"examples": 10_000}),
        "paper": Scale(f"{CONFIG}:cifar10", seeds=5, settings={"examples": 10_000}),
    },
    stages=TRAINED,
    columns=(
        PARAMETERS,
        STEPS_PER_SECOND,
        LOSS,
        Column("measure.train_error", "training error, %", fixed(1, 100), better="lower"),
        Column("measure.test_error", "test error, %", fixed(1, 100), better="lower"),
        Column("measure.zero_difference", "|block(x) - x|, filters 0", significant(2), spread=False),
        Column("measure.jacobian_difference", "|J - J of branch - I|", significant(2), spread=False),
    ),
    published="degradation.csv",
    compared={"measure.test_error": "test error, %"},
    claims="../claims.csv",
    # Fashion-MNIST: a linear classifier has 84 %, the nearest neighbours 85, small convolutional networks 90 and more.
    competence=(Competence("residual_20", "measure.test_error", line=0.12),),
    verdicts=VERDICTS,
    figures=(draw_depths, draw_curves),
    notes=(
        "Errors of the last parameters, in evaluation: running moments, no augmentation; of as many examples of each "
        "split, by a fixed permutation. The printed errors are of other pictures and 64,000 updates.",
    ),
)  # fmt: skip
