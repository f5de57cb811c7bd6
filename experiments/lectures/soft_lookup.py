"""Attention as a soft lookup, and as a pointer into a memory.

    attention-research reproduce lectures/soft_lookup --scale=cpu

Exact statements, in float64 (`laws.selection`): as the scores become sharper, the soft lookup of a stored key converges
to its value. Its gradient is nonzero where that of the hard lookup is zero. Trained models (`recurrent.tasks`) return
the value of one of M keys: attention over the pairs, the last state of a gated recurrent unit that has read the pairs,
and a table.
"""

from __future__ import annotations

from pathlib import Path

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, compare, decide

from .laws import exact
from .recurrent.tasks import measure_pairs

LAWS = {"soft-lookup-against-hard": "sharper scores, harder lookup"}
MEMORIES = {"attention": "attention", "rnn": "recurrent state", "table": "table"}
#: Attention counts as a pointer into memory if its accuracy reaches this value at every number of pairs.
POINTS = 0.95


def pointer(results: Results) -> Verdict:
    """Attention finds the value at every number of pairs in every seed. At the largest number of pairs it is clearly
    better than a recurrent state."""
    lists = {memory: results.values(memory, "measure.accuracies") for memory in MEMORIES}
    if not lists["attention"]:
        return Verdict(UNTESTED, "attention is not measured")
    pairs = results.settings.get("pairs", ())
    said = [f"{name}: {', '.join(f'{100 * value:.0f}' for value in results.mean_list(memory, 'measure.accuracies'))} %"
            for memory, name in MEMORIES.items() if lists[memory]]  # fmt: skip
    least = min(min(one) for one in lists["attention"])
    cases = {
        "attention finds the value": Case.ruled(least >= POINTS, f"accuracy of at least {100 * least:.0f} %"),
        "better than a recurrent state": Case.compared(
            compare(results, "attention", "rnn", "measure.most", higher=True)
        ),
    }
    return decide(cases, f"accuracy by number of pairs ({', '.join(map(str, pairs))})", *said)


VERDICTS = {**{claim: exact.exact(claim) for claim in LAWS}, "attention-as-memory-pointer": pointer}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the accuracy against the number of pairs, with one line for each kind of memory."""
    curves = {name: results.mean_list(memory, "measure.accuracies") for memory, name in MEMORIES.items()}
    curves = {name: curve for name, curve in curves.items() if curve}
    if not curves:
        return None
    pairs = results.settings.get("pairs", ())
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(7.4, 4.2))
    for (name, curve), style in zip(curves.items(), styles_of(MEMORIES.values()).values(), strict=False):
        axis.plot(pairs, [100 * value for value in curve], label=name, **style)
    axis.set_xscale("log", base=2)
    axis.set_xticks(pairs, [str(count) for count in pairs])
    axis.set_ylim(0, 103)
    axis.set_xlabel("key-value pairs in memory")
    axis.set_ylabel("accuracy, %")
    legend(figure)
    where = folder / "pairs.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=list(MEMORIES)))
    said = "; ".join(f"{name} {', '.join(f'{100 * value:.0f}' for value in curve)} %" for name, curve in curves.items())
    return Figure(where, "Looking up the value of a key", f"Accuracy by pairs ({', '.join(map(str, pairs))}): {said}.")


SIZES = {**exact.DRAWS, "pairs": (1, 2, 4, 8, 16, 32), "symbols": 32, "width": 64, "steps": 1500, "batch_size": 64,
         "rate": 0.005}  # fmt: skip
STUDY = Study(
    rows=(
        *(exact.row(claim, name) for claim, name in LAWS.items()),
        *(Row(memory, name, settings={"memory": memory}, stages=(measure(measure_pairs),),
              scales=("cpu", "gpu") if memory == "rnn" else None) for memory, name in MEMORIES.items()),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1, "pairs": (1, 4), "steps": 20}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "pairs": (1, 4, 16, 64, 256), "symbols": 256, "steps": 20_000}),
    },
    columns=(*exact.COLUMNS, Column("measure.most", "accuracy with the most pairs, %", fixed(1, 100), better="higher")),
    claims="../claims.csv",
    competence=(Competence("attention", "measure.most", line=0.9, higher=True),),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(exact.NOTE, "The largest number of pairs is 32, with 32 symbols; chance is 3.1 %."),
)  # fmt: skip
