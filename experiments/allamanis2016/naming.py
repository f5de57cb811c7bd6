"""Allamanis, Peng & Sutton 2016: predicting names of functions from their bodies, with and without copying.

    attention-research reproduce allamanis2016/naming --scale=cpu

The paper's data are ten Java projects, with one model for each. Here the data are the Python standard library of the
running interpreter, split by top-level module, so that modules of test functions are not in the training data. The
published F1 is for other data. Compare the rows with each other and with the two baselines (the most frequent name, and
the first sub-tokens of the body), not with the published column.

`attention` stands for the paper's "standard attention". It is Bahdanau's attention over a bidirectional LSTM (the
pointer-generator without its pointer). `tf_idf` returns the names of the nearest bodies and trains nothing.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FIGURE, UNTESTED, Case, Verdict, compare, conclude, decide

CONFIG = "configs/naming/allamanis.py"
HERE = Path(__file__).parent
NOTE = (
    "Data: functions of the standard library of the Python that ran, split by module. F1 is in percent, averaged over "
    "functions, for the first suggestion and for the best of five. OOV: sub-tokens outside the vocabulary of 2,000."
)


def named(*, workdir: Path, seed: int) -> dict[str, Any]:
    """Returns the scores of the run and, for the first seed, the copy tables."""
    from .naming_run import copy_tables, scores_of

    return {**scores_of(workdir), **({"tables": copy_tables(workdir)} if seed == 0 else {})}


def nearest(*, workdir: Path, seed: int) -> dict[str, Any]:
    """Returns the scores of the names of the nearest bodies. `seed` has no effect."""
    from .naming_run import nearest_scores

    del seed
    return nearest_scores(workdir)


def tables_of(results: Results, row: str = "copy_attention") -> list[dict[str, Any]]:
    """Returns the tables of the first finished seed of a row that has tables."""
    return next(iter(results.values(row, "measure.tables")), [])


def printed_lambdas() -> list[tuple[str, float]]:
    """Returns (sub-token, lambda) of the example in the paper."""
    with open(HERE / "lambdas.csv", encoding="utf-8", newline="") as file:
        return [(line["target"].split()[1], float(line["lambda_meta_attention"])) for line in csv.DictReader(file)]


def draw_tables(results: Results, folder: Path) -> Any:
    """Draws alpha, kappa and lambda for each sub-token that copy attention generated, and the published lambdas."""
    from attention_research.studies.figures import Figure, caption, save

    from .copy_table import CopyTable, figure_of

    found = [CopyTable.from_json(table) for table in tables_of(results)]
    if not found:
        return None
    path = folder / "copy_table.png"
    marks = "α: attention, κ: copying weights, dark is large, λ: probability of copying; below: the published λ"
    save(figure_of(found, printed_lambdas()), path, caption(results, marks, seeds="1 seed"))
    title = "Copy attention by sub-token: attention weights (α), copying weights (κ) and probability of copying (λ)"
    return Figure(path, title, ". ".join(f"{table.place}: {table.words()}" for table in found))


def copying_helps(results: Results) -> Verdict:
    """Copy attention is better than the same model without copying."""
    keys = {"F1": "measure.f1", "exact match": "measure.exact_match", "OOV sub-tokens": "measure.oov_accuracy"}
    cases = {name: compare(results, "copy_attention", "conv_attention", key, higher=True) for name, key in keys.items()}
    return conclude(cases)


def table_is_drawn(results: Results) -> Verdict:
    """The tables of the paper's example and of held-out functions are drawn, with the published lambdas."""
    tables, printed = tables_of(results), printed_lambdas()
    if not tables:
        return Verdict(UNTESTED, "no finished run of copy_attention has tables")
    ours = "; ".join(f"{w} {v:.3f}" for w, v in zip(tables[0]["wrote"], tables[0]["lambda"], strict=True))
    theirs = f"published: {'; '.join(f'{w} {v:.3f}' for w, v in printed)}"
    whole = all(len(one["wrote"]) == len(one["alpha"]) == len(one["kappa"]) == len(one["lambda"]) for one in tables)
    places = f"{len(tables) - 1} held-out functions: {', '.join(one['place'] for one in tables[1:])}"
    said = [theirs, f"ours on the same function in Python: {ours}", f"also drawn with two rows and lambda: {places}"]
    status = FIGURE if whole and len(tables) > 1 else UNTESTED
    return Verdict(status, said)


def lambda_separates(results: Results) -> Verdict:
    """At the true names of test functions, lambda is above 0.5 in every seed if the body contains the sub-token, and
    below otherwise.

    The text says whether it is at least larger in the first case than in the second.
    """
    names = ("lambda_copied", "lambda_invented", "lambda_end", "lambda_auc")
    seeds = list(zip(*(results.values("copy_attention", f"measure.{name}") for name in names), strict=True))
    if not seeds:
        return Verdict(UNTESTED, "no finished run of copy_attention")
    mean = [sum(values) / len(values) for values in zip(*seeds, strict=True)]
    cases = {
        "above 0.5 if the body has the sub-token": Case.ruled(
            all(copied > 0.5 for copied, *_ in seeds), f"mean lambda {mean[0]:.3f}; published 0.974, 0.969, 0.583"
        ),
        "below 0.5 if it does not": Case.ruled(
            all(0.5 > max(invented, end) for _, invented, end, _ in seeds),
            f"mean lambda {mean[1]:.3f}, at the end {mean[2]:.3f}; published 0.012, 0.066",
        ),
    }
    ordered = all(copied > max(invented, end) for copied, invented, end, _ in seeds)
    order = f"lambda is {'larger' if ordered else 'not larger'} in the first case than in the second in every seed"
    over = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    return decide(cases, f"{order}, area under the curve {mean[3]:.3f}, {over}")


#: The pointer-generator without its pointer. A step costs about twice as much, so half as many steps take equal time.
LSTM = {"kind": "lstm", "width": 96}
ATTENTION = {"kind": "pointer_generator", "max_length": 8, "copies": False, "dropout_rate": 0.4}
STUDY = Study(
    rows=(
        Row("tf_idf", "TF-IDF, nearest body", stages=(measure(nearest),)),
        Row(
            "attention",
            "standard attention",
            {"model": {**ATTENTION, "width": 64, "cell": LSTM}, "training.learning_rate": 2e-3, "training.steps": 5000},
            at={"smoke": {"model": {**ATTENTION, "width": 16, "cell": {**LSTM, "width": 8}}}},
        ),
        Row("conv_attention", "convolutional attention", {"model.kind": "conv_attention"}),
        Row("copy_attention", "copy attention"),
        Row("conv_attention_java_small", "convolutional attention, Java-small (code2seq's re-run)", scales=()),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, note=NOTE),
        "gpu": Scale(f"{CONFIG}:allamanis", seeds=3, note=NOTE),
    },
    stages=(train, evaluate, measure(named)),
    columns=(
        PARAMETERS,
        FLOPS,
        STEPS_PER_SECOND,
        LOSS,
        Column("measure.f1", "F1", fixed(1), better="higher"),
        Column("measure.f1_at_5", "F1 at 5", fixed(1), better="higher"),
        Column("measure.precision", "precision", fixed(1), better="higher"),
        Column("measure.recall", "recall", fixed(1), better="higher"),
        Column("measure.exact_match", "exact match, %", fixed(1), better="higher"),
        Column("measure.oov_accuracy", "OOV accuracy, %", fixed(1), better="higher"),
        Column("measure.lambda_copied", "lambda, in body", fixed(2)),
        Column("measure.lambda_invented", "lambda, not in body", fixed(2)),
        Column("measure.lambda_auc", "lambda AUC", fixed(2), better="higher"),
        Column("measure.floor_f1", "baseline F1", fixed(1), spread=False),
    ),
    published="naming.csv",
    claims="../claims.csv",
    figures=(draw_tables,),
    competence=(Competence("copy_attention", "measure.f1", "tf_idf", higher=True),),
    verdicts={
        "copy-head-beside-regular": copying_helps,
        "copy-naming-table": table_is_drawn,
        "copy-lambda-separates": lambda_separates,
    },
)
