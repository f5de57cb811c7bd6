"""Power et al. 2022, "Grokking": when a small Transformer fits its equations, and when it knows the others.

    attention-research reproduce power2022/grokking --scale=paper

A model is trained on a fraction of all equations a o b = c of an operation (`data.equations`). Accuracy is that of c on
the other equations. The paper prints few numbers; it has curves, and says in words what they show. A run ends once
99.9 % of the validation equations were right at ten checks in a row, or at the last update of its row. The paper's runs
have 100,000 updates; the rows say how many they have here.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNMEASURED, Case, Verdict, decide, of_all_seeds

from .curves import draw, measure_updates

CONFIG = "configs/arithmetic/equations.py"
#: The last update of division.
LAST = 20_000
FITTED, GENERALISED, BEST = "measure.fitted", "measure.generalised", "measure.best_accuracy"
#: Row of S5 -> the fraction of its equations that are for training.
FRACTIONS = {"s5_30": 0.30, "s5_35": 0.35, "s5_40": 0.40, "s5_50": 0.50}


def row(id: str, name: str, operation: str, fraction: float, decay: float, steps: int) -> Row:
    """A row with its last update; smoke tests and `quick` have the updates of their scale."""
    changes: dict[str, Any] = {
        "data.operation": operation,
        "data.train_fraction": fraction,
        "training.optimizer.weight_decay": decay,
        **({"vocabulary_size": 126} if operation == "s5" else {}),
    }
    return Row(id, name, {**changes, "training.steps": steps}, at={"smoke": changes, "quick": changes})


ROWS = (
    row("division", "a / b, half, decay 1", "division", 0.5, 1.0, LAST),
    row("division_no_decay", "a / b, half, no decay", "division", 0.5, 0.0, LAST),
    row("polynomial", "a^3 + ab^2 + b, 95 %, decay 1", "polynomial", 0.95, 1.0, 20_000),
    *(row(id, f"S5, {share:.0%}, decay 1", "s5", share, 1.0, 30_000) for id, share in FRACTIONS.items()),
)


def updates(results: Results, row: str, key: str) -> list[float]:
    """For each finished seed of a row, the update at which it reached 99 %; infinity if it never did."""
    return [entry.result["stages"]["measure"].get(key.split(".")[1], math.inf) for entry in results.of(row)
            if entry.result and "measure" in entry.result["stages"]]  # fmt: skip


def _said(found: list[float]) -> str:
    return ", ".join("never" if number == math.inf else f"{number:,}" for number in found)


def knows_others_later(results: Results) -> Verdict:
    """In every seed, the model of division needs at least three times as many updates for 99 % of the validation
    equations as for 99 % of a training batch."""
    fitted, known = updates(results, "division", FITTED), updates(results, "division", GENERALISED)
    if not known:
        return decide({"division": Case(UNMEASURED)})
    ratio = min(after / before for after, before in zip(known, fitted, strict=True))
    said = f"{_said(fitted)} updates for training, {_said(known)} for validation"
    holds = ratio >= 3 and max(known) < math.inf
    return decide({"division": of_all_seeds(results, "division", Case.ruled(holds, said))})


def decay_helps(results: Results) -> Verdict:
    """With weight decay, every seed of division knows 99 % of the validation equations after at most half of the
    updates that any seed needs without decay, or that it has."""
    rows = ("division", "division_no_decay")
    with_decay, without = (updates(results, row, GENERALISED) for row in rows)
    if not with_decay or not without:
        return decide({"division": Case(UNMEASURED)})
    case = Case.ruled(
        2 * max(with_decay) <= min(*without, LAST), f"{_said(with_decay)} with decay, {_said(without)} without"
    )
    for row in rows:
        case = of_all_seeds(results, row, case)
    return decide({"division": case})


def less_data_takes_longer(results: Results) -> Verdict:
    """The median number of updates until 99 % of the validation equations of S5 grows with each step to less data. A
    row that does not get there has more updates than one that does."""
    found = {id: updates(results, id, GENERALISED) for id in FRACTIONS}
    medians, cases = {id: statistics.median(values) for id, values in found.items() if values}, {}
    for less, more in zip(list(FRACTIONS)[:-1], list(FRACTIONS)[1:], strict=True):
        name = f"{FRACTIONS[less]:.0%} and {FRACTIONS[more]:.0%}"
        cases[name] = Case(UNMEASURED)
        if less in medians and more in medians and medians[more] < math.inf:
            said = f"{medians[less]:,} against {medians[more]:,} updates"
            cases[name] = Case.ruled(medians[less] > medians[more], said)
    return decide(cases)


def polynomial_is_not_known(results: Results) -> Verdict:
    """Every seed fits a^3 + ab^2 + b, and at its best knows less than half of the validation equations."""
    fitted, best = updates(results, "polynomial", FITTED), results.values("polynomial", BEST)
    case = Case(UNMEASURED)
    if best:
        holds = max(fitted) < math.inf and max(best) < 50
        case = Case.ruled(holds, f"at most {max(best):.1f} % of the validation equations")
    return decide({"95 % of the equations": of_all_seeds(results, "polynomial", case)})


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2),
        "quick": Scale(f"{CONFIG}:division", {"training.steps": 2000}, seeds=1, note="2,000 updates for every row."),
        "paper": Scale(
            f"{CONFIG}:division", seeds=3, note="At most 20,000 updates, 30,000 for S5; the paper has 100,000."
        ),
    },
    stages=(train, evaluate, measure(measure_updates)),
    columns=(
        PARAMETERS,
        Column(FITTED, "updates to 99 % of training", fixed(0), better="lower"),
        Column(GENERALISED, "updates to 99 % of validation", fixed(0), better="lower"),
        Column("measure.learned", "seeds that get there, %", fixed(0), better="higher"),
        Column(BEST, "best validation accuracy, %", fixed(1), better="higher"),
    ),
    published="grokking.csv",
    claims="../claims.csv",
    figures=(draw,),
    competence=(
        Competence(
            "division", BEST, line=99.0, higher=True,
            claims=("grokking-is-late", "grokking-weight-decay", "grokking-polynomial"), rows=("division",),
        ),
        Competence("s5_50", BEST, line=99.0, higher=True, claims=("grokking-less-data",), rows=("s5_*",)),
    ),
    verdicts={
        "grokking-is-late": knows_others_later,
        "grokking-weight-decay": decay_helps,
        "grokking-less-data": less_data_takes_longer,
        "grokking-polynomial": polynomial_is_not_known,
    },
)  # fmt: skip
