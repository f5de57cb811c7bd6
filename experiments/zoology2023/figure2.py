"""Arora et al. 2023 (Zoology), Figure 2: accuracy of associative recall by the width of the model and its mixer.

    attention-research reproduce zoology2023/figure2 --scale=paper

This is the part of the figure with 64 positions and 4 pairs, at the widths 64 and 128. Attention has two layers and
learned positions, every other mixer four layers without positions, as in the released configuration. A row is a mixer
at a width with one of the four learning rates. The figure shows the best of the four, and so do the claims here.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, decide

from .figures import draw_by_width
from .grid import ACCURACY, MIXERS, RATES, SOLVED, WIDTHS, best, row_id

CONFIG = "configs/language_modelling/associative_recall.py"
#: The accuracy at which recall counts as solved, and the gain by which a width is better than another, in percent.
GAIN = 5.0
EPOCH = 196
OTHERS = tuple(mixer for mixer in MIXERS if mixer != "attention")


def network(mixer: str) -> dict[str, Any]:
    """The overrides of a mixer. The GRU has the initialization of its layers."""
    if mixer == "attention":
        return {}
    if mixer == "gru":
        recurrent = {"kind": "recurrent", "num_layers": 2, "cell": {"kind": "gru"}}
        return {"model.network": recurrent, "model.initialization": {"kind": "as_built"}}
    return {
        "model.network.num_layers": 4,
        "model.network.self_attention": {"kind": mixer},
        "model.network.positions": {"kind": "none"},
    }


def row(mixer: str, width: int, rate: float) -> Row:
    """A mixer at a width with a learning rate. A smoke test has a quarter of the width."""
    changes = {**network(mixer), "training.learning_rate": rate}
    name = f"{MIXERS[mixer]}, width {width}, rate {rate:g}"
    small = {**changes, "model.width": width // 4}
    return Row(row_id(mixer, width, rate), name, {**changes, "model.width": width}, at={"smoke": small})


def attention_is_enough(results: Results) -> Verdict:
    """At each width, attention with the best of its rates answers 99 % right."""
    found = {width: best(results, "attention", width) for width in WIDTHS}
    return decide({
        f"width {width}": Case.ruled(None) if accuracy is None else Case.ruled(accuracy >= SOLVED, f"{accuracy:.1f} %")
        for width, accuracy in found.items()
    })  # fmt: skip


def states_need_width(results: Results) -> Verdict:
    """Every other mixer answers less than 99 % right at width 64, and at least 5 points more at width 128."""
    cases = {}
    for mixer in OTHERS:
        narrow, wide = (best(results, mixer, width) for width in WIDTHS)
        cases[MIXERS[mixer]] = Case.ruled(None)
        if narrow is not None and wide is not None:
            clear = narrow < SOLVED and wide >= narrow + GAIN
            cases[MIXERS[mixer]] = Case.ruled(clear, f"{narrow:.1f} and {wide:.1f} %")
    return decide(cases)


STUDY = Study(
    rows=tuple(row(mixer, width, rate) for mixer in MIXERS for width in WIDTHS for rate in RATES),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2),
        "quick": Scale(
            f"{CONFIG}:attention",
            {"training.steps": 6 * EPOCH, "training.checkpoint_every": 6 * EPOCH},
            seeds=1,
            note="6 epochs in place of 64.",
        ),
        "paper": Scale(
            f"{CONFIG}:attention",
            seeds=1,
            note="The figure has one seed too. It shows the best rate by the accuracy of the test set, which is biased "
            "upwards.",
        ),
    },
    columns=(PARAMETERS, Column(ACCURACY, "accuracy, %", fixed(1), better="higher")),
    published="figure2.csv",
    claims="../claims.csv",
    competence=(Competence(row_id("attention", 64, RATES[1]), ACCURACY, floor="chance", margin=50.0, higher=True),),
    verdicts={
        "attention-recalls-at-any-width": attention_is_enough,
        "recall-needs-width-without-attention": states_need_width,
    },
    figures=(draw_by_width,),
    notes=(
        "The published accuracies are read off the figure, to 1 or 3 points, and belong to the best of the four rates. "
        "They stand beside each rate. RWKV is version 4 in the paper and 7 here, so that its published number is only "
        "in the figure below.",
    ),
)
