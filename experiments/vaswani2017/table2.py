"""Vaswani et al. 2017, Table 2: training cost, by the paper's definition and as counted FLOPs of the model.

    attention-research reproduce vaswani2017/table2 --scale=paper

The paper's FLOPs are machine time: hours x GPUs x the sustained rate that it assumes for a P100, 9.5 TFLOPS. Model
FLOPs are 2 for each multiply-add of the matrix products in one training step of our configurations, forward and
backward, times the number of updates; they are less than a third of the former for base and less than half for big.
Both are computed here, and nothing is trained. BLEU and the cells of other systems are the paper's. The English-French
BLEU of the big model is 41.8 in the later arXiv versions, and 41.0 in the early ones and in the proceedings.
"""

from __future__ import annotations

import functools
from typing import Any

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column
from attention_research.studies.results import Results, published
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, decide

CONFIG = "configs/translation/transformer.py"
#: Section 5.2 and the footnote of the table: 8 P100 GPUs with a sustained rate of 9.5 TFLOPS in single precision.
P100 = {"devices": 8, "rate": 9.5e12}


@functools.cache
def inspected(variant: str) -> dict[str, Any]:
    """Returns the counts of `inspect` for a variant of our configuration, and its "steps"."""
    from attention_research.config import load
    from attention_research.training.inspection import inspect

    config = load(f"{CONFIG}:{variant}")
    return {**inspect(config), "steps": config.resolved["training"]["steps"]}


def training_cost(*, seed: int, variant: str = "", hours: float = 0.0, devices: int = 0, rate: float = 0.0):
    """Returns "machine", "model" and "steps" for a variant of our configuration, or nothing for another system."""
    del seed
    if not variant:
        return {}
    found = inspected(variant)
    machine = hours * 3600 * devices * rate
    return {"machine": machine, "model": found["flops"] * found["steps"], "steps": found["steps"]}


def counted(**settings: Any) -> dict[str, Any]:
    """Returns the counts for `inspect`: parameters and FLOPs of one step, and both costs of the whole training."""
    if not settings.get("variant"):
        return {"parameters": None, "flops": None}
    found, cost = inspected(settings["variant"]), training_cost(seed=0, **settings)
    return {"parameters": found["parameters"], "flops": found["flops"], "operations": cost["model"], **cost}


def training_flops(results: Results) -> Verdict:
    """The machine time of base is below the published cost of every other system, and that of big is close to the cost
    of the other single En-De systems."""
    base, big = (results.cell(row, MACHINE).mean for row in ("base", "big"))
    if base is None or big is None:
        return Verdict(UNTESTED, "base or big is not counted")
    printed = published(results.study)
    cost = lambda row: [float(printed[row][c]) for c in ("FLOPs En-De", "FLOPs En-Fr") if c in printed[row]]
    rivals = {row.id: min(cost(row.id)) for row in results.rows if not row.settings and cost(row.id)}
    single = [float(printed[row]["FLOPs En-De"]) for row in ("gnmt", "convs2s", "moe")]
    below = base < min(rivals.values())
    near = all(0.1 < big / other < 10 for other in single)
    singles = ", ".join(f"{other:.3g}" for other in single)
    return decide({
        "base costs less than all others": Case.ruled(below, f"{base:.3g} against at least {min(rivals.values()):.3g}"),
        "big costs about as much as single models": Case.ruled(near, f"{big:.3g} against {singles}"),
    })  # fmt: skip


def best_bleu(results: Results) -> Verdict:
    """In the published cells, big has the highest English-German BLEU of all systems, and the highest English-French
    BLEU of single models, with both the later 41.8 and the early 41.0. Nothing of the table is trained here."""
    printed = published(results.study)
    german, french = ({row: float(cells[column]) for row, cells in printed.items() if cells.get(column)}
                      for column in ("BLEU En-De", "BLEU En-Fr"))  # fmt: skip
    ours = ("base", "big", "big_early")
    rivals = {row: bleu for row, bleu in german.items() if row not in ours}
    single = {row: bleu for row, bleu in french.items() if row not in ours and not row.endswith("_ensemble")}
    if not rivals or not single:
        return Verdict(UNTESTED, "the published cells are missing")
    cases = {
        "English-German, ensembles included": Case.ruled(
            german["big"] > max(rivals.values()), f"published {german['big']} against at most {max(rivals.values())}"
        ),
        "English-French, single models": Case.ruled(
            min(french["big"], french["big_early"]) > max(single.values()),
            f"published {french['big']} ({french['big_early']} as first published) against at most "
            f"{max(single.values())}; ensembles at most {max(french[row] for row in french if row not in ours)}",
        ),
    }
    trained = "for recurrent models and Transformers on equal budgets see lectures/rnn_vs_transformer"
    return decide(cases, "no other system was trained here", trained)


scientific = "{:.3g}".format
MACHINE = Column("measure.machine", "machine FLOPs (hours x GPUs x rate)", scientific, spread=False, better="lower")
MODEL = Column("measure.model", "model FLOPs (our count)", scientific, spread=False, better="lower")

STUDY = Study(
    rows=(
        Row("bytenet", "ByteNet"),
        Row("deep_att", "Deep-Att + PosUnk"),
        Row("gnmt", "GNMT + RL"),
        Row("convs2s", "ConvS2S"),
        Row("moe", "MoE"),
        Row("deep_att_ensemble", "Deep-Att + PosUnk, ensemble"),
        Row("gnmt_ensemble", "GNMT + RL, ensemble"),
        Row("convs2s_ensemble", "ConvS2S, ensemble"),
        Row("base", "Transformer (base)", settings={"variant": "vaswani_base", "hours": 12.0, **P100}),
        Row("big", "Transformer (big)", settings={"variant": "vaswani_big", "hours": 84.0, **P100}),
        Row(
            "big_early",
            "Transformer (big), En-Fr as first published",
            settings={"variant": "vaswani_big", "hours": 84.0, **P100},
        ),
    ),
    scales={"paper": Scale(seeds=1, jobs=2, note="Only counted, not trained: BLEU is in the published columns only.")},
    stages=(measure(training_cost),),
    columns=(MACHINE, MODEL),
    count=counted,
    published="table2.csv",
    claims="../claims.csv",
    competence=(),
    verdicts={"transformer-training-flops": training_flops, "transformer-bleu": best_bleu},
)
