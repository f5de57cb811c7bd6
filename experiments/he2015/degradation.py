"""He et al. 2015: deeper plain networks have a higher training error; with residual connections they do not.

    attention-research reproduce he2015/degradation --scale=cpu

The models are the paper's CIFAR-10 networks of 20, 32, 44 and 56 layers, with and without identity shortcuts, both with
batch normalization. Measured are the errors on the training and the test split, and during training. At `cpu` the data
are Fashion-MNIST images at half their side, and the networks have half the width and 5,000 updates. `paper` is CIFAR-10
as published, with 110 layers too. The study also checks two exact statements: a block whose filters are zero is the
identity, and the Jacobian of a block is that of its branch plus the identity.
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
    """The rows of both kinds at every depth; 110 layers only at the scale `paper`."""
    found = []
    for depth in (*DEPTHS, 110):
        for kind, shortcut in KINDS.items():
            overrides = {"model.features.depth": depth, "model.features.shortcut.kind": shortcut}
            scales = ("paper",) if depth == 110 else ("cpu", "gpu", "paper") if depth in (32, 44) else None
            small = {"smoke": {**overrides, "model.features.depth": 8 if depth == 20 else 14}}
            found.append(Row(f"{kind}_{depth}", f"{kind}, {depth} layers", overrides, at=small, scales=scales))
    return tuple(found)


def printed() -> tuple[Row, ...]:
    """The rows of ImageNet, with published cells only."""
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
        Column("measure.zero_difference", "|block(x) - x|, zero filters", significant(2), spread=False),
        Column("measure.jacobian_difference", "|J - J of branch - I|", significant(2), spread=False),
    ),
    published="degradation.csv",
    compared={"measure.test_error": "test error, %"},
    claims="../claims.csv",
    # On Fashion-MNIST a linear classifier reaches 84 %, nearest neighbours 85 %, small CNNs 90 % and more.
    competence=(Competence("residual_20", "measure.test_error", line=0.12),),
    verdicts=VERDICTS,
    figures=(draw_depths, draw_curves),
    notes=(
        "Errors are those of the final parameters in evaluation mode, with running moments and without augmentation, "
        "on equally many examples of each split. The published errors are for other images and 64,000 updates.",
    ),
)  # fmt: skip
