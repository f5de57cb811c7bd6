"""The verdict and the figure of `linformer2020/table3`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.columns import exponent
from attention_research.studies.figures import Figure, canvas, caption, legend, mark_plainly, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, decide

#: A cost counts as linear in the length if its power is at most this. At these lengths a part of the cost is not yet
#: proportional to the length.
LINEAR = 1.25


def costs(results: Results, row: str, kind: str) -> tuple[list[int], dict[str, list[float]]]:
    """Returns (lengths, name -> mean cost by length) for "milliseconds" or "bytes"."""
    found, lengths = results.values(row, f"measure.{kind}"), results.values(row, "measure.lengths")
    if not found:
        return [], {}
    mean = lambda name: [sum(at) / len(at) for at in zip(*(one[name] for one in found), strict=True)]
    return list(lengths[0]), {name: mean(name) for name in found[0]}


def cheaper(results: Results) -> Verdict:
    """Time and memory of Linformer grow linearly with the length at every k, and those of materialized attention do
    not. At the longest length Linformer needs less time and memory than materialized attention, and less time than the
    fused kernel. The text also gives the memory of the fused kernel, which is linear in the length, too."""
    cases, said = {}, []
    for row in (row.id for row in results.study.rows_at(results.scale)):
        for kind in ("milliseconds", "bytes"):
            lengths, by_name = costs(results, row, kind)
            if len(lengths) < 2:
                cases[f"{row}, {kind}"] = Case.ruled(None)
                continue
            powers = {name: exponent(lengths, values) or 0.0 for name, values in by_name.items()}
            last = {name: values[-1] / by_name["linformer"][-1] for name, values in by_name.items()}
            linear = powers["linformer"] <= LINEAR < powers["materialised"]
            cases[f"{row}, {kind}, growth"] = Case.ruled(
                linear, f"n^{powers['linformer']:.2f}, materialized n^{powers['materialised']:.2f}"
            )
            for other, name in (("materialised", "materialized attention"), ("fused", "the fused kernel")):
                numbers = f"{last[other]:.2f} times less at {lengths[-1]} (n^{powers[other]:.2f})"
                if (kind, other) == ("bytes", "fused"):
                    said.append(f"{row}, memory against the fused kernel: {numbers}")
                else:
                    cases[f"{row}, {kind}, less than {name}"] = Case.ruled(last[other] > 1, numbers)
    return decide(cases, *said)


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws milliseconds and megabytes by length: the two kernels of the first row, and one line for every k."""
    rows = [row for row in results.rows if costs(results, row.id, "bytes")[0]]
    if not rows:
        return None
    pyplot, said = canvas(), []
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.8))
    for axis, kind, unit, scale in zip(axes, ("milliseconds", "bytes"), ("milliseconds", "megabytes"), (1.0, 1e6),
                                       strict=True):  # fmt: skip
        looks = iter(styles_of(["materialised", "fused", *(row.id for row in rows)]).values())
        for name in ("materialised", "fused"):
            lengths, by_name = costs(results, rows[0].id, kind)
            axis.plot(lengths, [value / scale for value in by_name[name]], label=f"{name} attention", **next(looks))
        for row, look in zip(rows, looks, strict=False):
            lengths, by_name = costs(results, row.id, kind)
            axis.plot(
                lengths, [value / scale for value in by_name["linformer"]], label=f"Linformer, {row.name}", **look
            )
            said.append(f"{row.name}, {unit} at {lengths[-1]}: {by_name['linformer'][-1] / scale:.3g}")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        every = costs(results, rows[0].id, kind)[0]
        axis.set_xticks(every, [f"{length:,}" for length in every])
        mark_plainly(axis.yaxis, (1,))
        axis.set_xlabel("sequence length, tokens")
        axis.set_ylabel(unit)
    legend(figure)
    where = folder / "cost.png"
    save(figure, where, caption(results, "lines: mean over seeds", rows=[row.id for row in rows]))
    return Figure(where, "Cost of a block by length", f"{'; '.join(said)}.")
