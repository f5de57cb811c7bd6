"""nanoGPT (Karpathy 2022): its model of Shakespeare's characters for a CPU, beside n-gram models.

    attention-research reproduce nanogpt2022/shakespeare --scale=paper

The program is a common reference for the training of small Transformers. The row `cpu` has each of its settings
(`configs/language_modelling/nanogpt.py`). The published number belongs to char-rnn's edition of the plays, which is in
no package registry; ours is another edition of the same eight plays, cut at the same length (`data.shakespeare`). The
row `long` is the same model, trained on 27 times as many characters.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import FLOPS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, conclude, decide, every_seed, margin_of, near

CONFIG = "configs/language_modelling/nanogpt.py"
NATS = "evaluate.nats"
#: The published loss, on the other edition.
PUBLISHED = 1.88
LONG = {
    "max_length": 128,
    "training.steps": 10_000,
    "training.batch_size": 32,
    "training.checkpoint_every": 5000,
    "training.eval_every": 1000,
    "training.eval_batches": 28,
}
ROWS = (
    Row("cpu", "nanoGPT's settings for a CPU"),
    Row("long", "the same, 10,000 steps of 32 x 128 characters", LONG, scales=("paper",)),
)


def near_the_printed_loss(results: Results) -> Verdict:
    """The mean loss of the row `cpu` differs from the number for the other edition by less than the claim's margin."""
    margin = margin_of(results, "nanogpt-loss")
    return conclude({"nanoGPT's settings": near(results, "cpu", NATS, PUBLISHED, margin)})


def better_than_n_grams_after_longer_training(results: Results) -> Verdict:
    """Every seed of the row `long` is better than the 7-gram model."""
    floor = results.floor("kneser_ney_7", NATS, "long")
    if floor is None:
        return decide({"7-gram": Case.ruled(None)})
    rule = lambda found: Case.ruled(max(found) < floor, f"at most {max(found):.3f} nats, 7-gram {floor:.3f}")
    return decide(every_seed(results, {"long": "7-gram"}, NATS, rule))


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2),
        "quick": Scale(f"{CONFIG}:cpu", {"training.steps": 200}, seeds=1, note="A tenth of the updates."),
        "paper": Scale(
            f"{CONFIG}:cpu",
            seeds=3,
            note="The published number is for another edition of the plays, and for 20 random batches of the "
            "validation text; ours is for all of it.",
        ),
    },
    columns=(PARAMETERS, FLOPS, Column(NATS, "nats a character", fixed(3), better="lower")),
    published="shakespeare.csv",
    compared={NATS: "nats a character (another edition of the text)"},
    claims="../claims.csv",
    competence=(Competence("cpu", NATS, line=2.2),),
    verdicts={
        "nanogpt-loss": near_the_printed_loss,
        "nanogpt-longer-beats-n-grams": better_than_n_grams_after_longer_training,
    },
)
