"""Lake & Baroni 2018: recurrent models on SCAN, by the split of the commands.

    attention-research reproduce lake2018/table1 --scale=paper

The paper prints its numbers in the text: for the best model over all experiments (two layers of 200 LSTM cells, dropout
0.5, no attention), for the best one of each experiment, and for simple recurrent networks (SRN) with and without
attention. It also prints two curves: the best model by the share of commands in training, and the best model for the
new verb jump by the number of composed commands with jump in training. A row is one of these models on one split
(`data.scan`). The numbers are shares of wrong commands, 100 minus the published shares of right ones.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, compare, conclude, decide, every_seed

CONFIG = "configs/compositional/scan.py"
WRONG, SEEN = "evaluate.word_error_rate", "evaluate.seen.word_error_rate"
ATTENTION = {
    "model.alignment": {"kind": "global", "score": {"kind": "additive"}},
    "model.decoder": {"kind": "luong", "input_feeding": True},
}


def model(cell: str, layers: int, width: int, dropout: float, *, attends: bool = True) -> dict[str, Any]:
    """The overrides of a model."""
    changes = {"model.cell": {"kind": cell}, "model.num_layers": layers, "model.width": width}
    return {**changes, "model.dropout_rate": dropout, **(ATTENTION if attends else {})}


#: Model -> (name, overrides).
OVERALL = ("LSTM 2 x 200", {})
SRN = ("SRN 1 x 100", model("vanilla", 1, 100, 0.0, attends=False))
SRN_ATTENTION = ("SRN 1 x 100 with attention", model("vanilla", 1, 100, 0.0))
GRU_50 = ("GRU 1 x 50 with attention", model("gru", 1, 50, 0.5))
GRU_100 = ("GRU 1 x 100 with attention", model("gru", 1, 100, 0.1))
LSTM_100 = ("LSTM 1 x 100 with attention", model("lstm", 1, 100, 0.1))


def row(split: str, id: str, title: str, one: tuple[str, dict[str, Any]], **settings: int) -> Row:
    """A model on a split, with further settings of `data.scan`. A smoke test keeps the small width."""
    name, changes = one
    data = {"data.split": split, **{f"data.{key}": value for key, value in settings.items()}}
    small = {key: value for key, value in changes.items() if key != "model.width"}
    return Row(f"{split}_{id}", f"{title}: {name}", {**changes, **data}, at={"smoke": {**small, **data}})


ROWS = (
    row("simple", "overall", "random", OVERALL),
    row("simple", "srn", "random", SRN),
    row("simple", "srn_attention", "random", SRN_ATTENTION),
    row("length", "overall", "longer", OVERALL),
    row("length", "best", "longer", GRU_50),
    row("turn_left", "overall", "turn left", OVERALL),
    row("turn_left", "best", "turn left", GRU_100),
    row("jump", "overall", "jump", OVERALL),
    row("jump", "best", "jump", LSTM_100),
    *(row("simple", f"p{n}", f"random, {n} % in training", OVERALL, percent=n) for n in (1, 2, 4)),
    *(row("jump", f"num{n}", f"jump, {n} composed in training", LSTM_100, composed=n) for n in (8, 16, 32)),
)


#: Split -> the rows whose test commands combine words in a way that training does not show.
UNSEEN = {"longer": ("length_overall", "length_best"), "jump": ("jump_overall", "jump_best")}


def attention_helps_simple_networks(results: Results) -> Verdict:
    """With attention, simple recurrent networks get fewer commands wrong."""
    return conclude({"random split": compare(results, "simple_srn_attention", "simple_srn", WRONG)})


def not_compositional(results: Results) -> Verdict:
    """Every model that gets at least 95 % of the training commands right gets fewer than half of the longer commands
    and of those with jump right, in every seed. Each of the two splits needs such a model."""
    names, cases = {one.id: one.name for one in ROWS}, {}
    for split, rows in UNSEEN.items():
        learned = [row for row in rows if max(results.values(row, SEEN), default=0) <= 5]
        rule = lambda wrong: Case.ruled(min(wrong) > 50, f"{min(wrong):.1f} to {max(wrong):.1f} % wrong")
        cases |= every_seed(results, {row: names[row] for row in learned}, WRONG, rule)
        if not learned:
            cases[split] = Case.ruled(None, "no model knows the training commands")
    return decide(cases)


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2),
        "quick": Scale(f"{CONFIG}:lstm", {"training.steps": 10_000}, seeds=1, note="A tenth of the commands."),
        "paper": Scale(f"{CONFIG}:lstm", seeds=3, note="The paper gives means of five runs."),
    },
    columns=(
        PARAMETERS,
        Column(SEEN, "wrong commands of training, %", fixed(1), better="lower"),
        Column(WRONG, "wrong commands, %", fixed(1), better="lower"),
    ),
    published="table1.csv",
    compared={WRONG: "wrong commands, %"},
    claims="../claims.csv",
    # Of the paper's simple networks, even the one with attention gets 40 % of the random split wrong.
    competence=(Competence("simple_overall", SEEN, line=5.0, rows=("*_overall", "*_best", "simple_p*", "jump_num*")),),
    verdicts={
        "attention-helps-simple-networks": attention_helps_simple_networks,
        "recurrent-models-do-not-compose": not_compositional,
    },
)
