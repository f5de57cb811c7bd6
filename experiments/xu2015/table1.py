"""Xu et al. 2015, Table 1: captions with one image vector, with soft and hard attention, and with later models.

    attention-research reproduce xu2015/table1 --scale=cpu

The data are collages of handwritten digits (`data.collages`), each with exactly one correct caption. The models have
the image vector only before the first word, its mean at every word, soft attention, hard attention by REINFORCE,
SCA-CNN's attention over channels and positions, or are a Transformer. Only the row `stochastic` has the doubly
stochastic term. Features are trained with the captioning model, or frozen with random weights, or trained before to
classify one digit in clutter and then frozen. Metrics are BLEU-1 to 4, ROUGE-L and CIDEr-D. The published cells are for
Flickr and COCO; METEOR is left out, because it needs Java. The noise of the gradients is measured too.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, evaluate, finetune, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, Column, fixed, significant
from attention_research.studies.competence import Competence
from attention_research.studies.figures import by_row

from .captioners import (
    CONFIG,
    DRAWN,
    LARGE,
    LOOKED,
    MEASURED,
    RECIPE,
    SETTINGS,
    captioners,
    frozen,
    pretraining,
    started,
)
from .table1_measures import measure_cut
from .table1_verdicts import VERDICTS

BLEU = tuple(Column(f"evaluate.bleu_{n}", f"BLEU-{n}", fixed(1), better="higher") for n in range(1, 5))
STARTED = Column("captions.bleu_4", "BLEU-4, captions after pre-training", fixed(1), better="higher")
PRINTED = {
    "nic": "Google NIC", "log_bilinear": "log-bilinear", "soft": "soft attention", "hard": "hard attention",
    "sca": "SCA-CNN",
}  # fmt: skip
#: The name of each data set and its rows with published scores.
SETS = {
    "flickr8k": ("Flickr8k", ("nic", "log_bilinear", "soft", "hard")),
    "flickr30k": ("Flickr30k", ("soft", "hard")),
    "coco": ("COCO", tuple(PRINTED)),
}
#: The rows of the claims.
CLAIMED = ("once", "every_word", "soft", "stochastic", "hard", "transformer", "frozen", "pretrained", "cut")


def rows() -> tuple[Row, ...]:
    """The rows: captioning models, features, and the rows of the paper."""
    found = [
        Row(id, name, overrides, scales=None if id in ("soft", "hard") else LARGE,
            stages=LOOKED if id in DRAWN else None)
        for id, (name, overrides) in captioners().items()
    ]  # fmt: skip
    found.append(Row("frozen", "soft, features frozen as drawn", frozen(), scales=LARGE))
    found.append(
        Row("pretrained", "features that tell one digit", pretraining(), scales=LARGE,
            stages=(train, evaluate, finetune("captions", started())))
    )  # fmt: skip
    found.append(Row("cut", "Transformer, cross-attention cut", stages=(measure(measure_cut),)))
    printed = (
        Row(f"{set}_{id}", f"{PRINTED[id]}, {told}", scales=()) for set, (told, ids) in SETS.items() for id in ids
    )
    return (*found, *printed)


STUDY = Study(
    rows=rows(),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 16, "gradients": 2}),
        "cpu": Scale(f"{CONFIG}:collages", RECIPE, seeds=1, more_seeds=dict.fromkeys(CLAIMED, 3), settings=SETTINGS),
        "gpu": Scale(f"{CONFIG}:collages", {**RECIPE, "training.steps": 20_000}, seeds=3, settings={"examples": 2000}),
    },
    stages=MEASURED,
    columns=(
        PARAMETERS, LOSS, *BLEU,
        Column("evaluate.rouge_l", "ROUGE-L", fixed(1), better="higher"),
        Column("evaluate.cider_d", "CIDEr-D", fixed(0), better="higher"),
        Column("measure.named", "objects named, %", fixed(1, 100), better="higher"),
        Column("measure.noise", "gradient noise", significant(2), better="lower"),
        STARTED,
        Column("measure.cut", "change of log p, attention cut", significant(2), spread=False),
    ),
    published="table1.csv",
    claims="../claims.csv",
    # A collage has exactly one correct caption; nine of ten objects have to be named.
    competence=(
        Competence(
            "soft",
            "measure.named",
            line=0.9,
            higher=True,
            claims=("caption-hard-against-soft", "caption-looks-once", "caption-pretrained-features"),
            rows=("once", "every_word", "soft", "stochastic", "hard", "sca", "frozen", "pretrained"),
        ),
        Competence(
            "transformer",
            "measure.named",
            line=0.9,
            higher=True,
            claims=("caption-by-cross-attention",),
            rows=("transformer",),
        ),
    ),
    verdicts=VERDICTS,
    figures=(by_row(BLEU[-1]),),
    notes=(
        "Ours are for collages, synthetic images with exactly one correct caption each. Their BLEU cannot be compared "
        "with that on Flickr or COCO.",
        "Gradient noise: the variance over batches divided by the squared norm of the mean, for the trained model.",
    ),
)  # fmt: skip
