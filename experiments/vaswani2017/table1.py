"""Vaswani et al. 2017, Table 1: complexity, sequential operations and maximum path length of a layer.

    attention-research reproduce vaswani2017/table1 --scale=cpu

Nothing is trained. The powers of the length, the width and the reach (the width k of a kernel, or the r of restricted
attention) are fitted to multiply-adds counted from the traced program of each layer. Sequential operations are the
longest chain of dependent products in the program. The path is the longest of the shortest paths between two positions
in the dependency graph, counted in layers or, for a recurrence, in states (k = r = 3). Time is that of one forward
pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, exponent, fixed, significant
from attention_research.studies.figures import Figure, canvas, caption, legend, mark_plainly, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Verdict

from .layers import KINDS, chains, count_powers, path, run_forward

#: The largest accepted difference between a fitted power and the expected integer.
NEAR = 0.05


def measure_layer(
    *, kind: str, lengths: Sequence[int], widths: Sequence[int], reaches: Sequence[int], ways: Sequence[int],
    timed: Sequence[int], seconds: float, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Measures powers of counts, chains and paths by length, their powers of the length, and milliseconds."""
    found = count_powers(kind, lengths, widths, reaches)
    chain = chains(kind, widths[0], ways)
    paths = [path(kind, length) for length in ways]
    times = [run_forward(kind, widths[-1], length, seconds, seed)["milliseconds"] for length in timed]
    return {
        **found,
        "chain": chain[-1],
        "chains": chain,
        "chain_power": exponent(ways, chain),
        "path": paths[-1],
        "paths": paths,
        "path_power": exponent(ways, paths),
        "times": times,
        "time_power": exponent(timed, times),
        **{f"milliseconds_{number}": time for number, time in enumerate(times, start=1)},
    }


def _powers(results: Results, name: str) -> dict[str, float]:
    """Maps each row id to its measured power."""
    return {row.id: mean for row in results.rows if (mean := results.mean(row.id, f"measure.{name}")) is not None}


def _lists(results: Results, name: str) -> dict[str, list[float]]:
    """Maps each row name to its mean values by length."""
    return {row.name: values for row in results.rows if (values := results.mean_list(row.id, f"measure.{name}"))}


def _said(results: Results, name: str) -> str:
    lists = _lists(results, name).items()
    return "; ".join(f"{row}: {', '.join(f'{value:g}' for value in values)}" for row, values in lists)


def _verdict(results: Results, name: str, wanted: dict[str, float], said: str) -> Verdict:
    """The claim holds if the power of each row is the expected one."""
    powers = _powers(results, name)
    if not wanted.keys() <= powers.keys():
        return Verdict(UNTESTED, "a layer is not measured")
    good = all(abs(powers[row] - power) <= NEAR for row, power in wanted.items())
    return Verdict(HELD if good else FAILED, said)


def distance_in_rnn(results: Results) -> Verdict:
    """The longest path of a recurrence grows linearly with the length."""
    return _verdict(results, "path_power", {"rnn": 1, "lstm": 1}, f"at n = {_ways(results)}; {_said(results, 'paths')}")


def constant_path(results: Results) -> Verdict:
    """The longest path is one step at every length in self-attention, and grows with the length in all other layers."""
    said = f"at n = {_ways(results)}; {_said(results, 'paths')}"
    powers = _powers(results, "path_power")
    grows = all(power > NEAR for row, power in powers.items() if row != "attention_core")
    held = _verdict(results, "path_power", {"attention_core": 0}, said)
    return held if grows or held.status == UNTESTED else Verdict(FAILED, said)


def parallel(results: Results) -> Verdict:
    """The longest chain of products of self-attention does not grow with the length.

    The text also gives the times on one device.
    """
    time = "; ".join(f"{row}: time ~ n^{power:.2f}" for row, power in _powers(results, "time_power").items())
    said = f"chains at n = {_ways(results)}; {_said(results, 'chains')}; time on one device: {time}"
    return _verdict(results, "chain_power", {"attention_core": 0, "rnn": 1, "lstm": 1}, said)


def _ways(results: Results) -> str:
    return ", ".join(map(str, results.settings.get("ways", ())))


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws sequential operations, the longest path and the time of a forward pass by length, one line per layer."""
    settings, pyplot = results.settings, canvas()
    panels = {
        "chains": ("longest chain of dependent products", settings["ways"]),
        "paths": ("longest path between two positions, steps", settings["ways"]),
        "times": ("milliseconds of a forward pass", settings["timed"]),
    }
    if not _lists(results, "paths"):
        return None
    looks = styles_of(row.name for row in results.rows)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(10.5, 4.8))
    for axis, (name, (title, lengths)) in zip(axes, panels.items(), strict=True):
        for (row, values), style in ((one, looks[one[0]]) for one in _lists(results, name).items()):
            axis.plot(lengths, values, label=row, linewidth=1.4, markersize=5, **style)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=10 if name == "times" else 2)
        axis.set_xticks(lengths, list(map(str, lengths)))
        mark_plainly(axis.yaxis, (1,))
        axis.set_xlabel("length n, positions")
        axis.set_ylabel(title)
    legend(figure)
    where = folder / "layers.png"
    save(figure, where, caption(results, "lines: mean over seeds"))
    return Figure(where, "Layers by length", f"At n = {_ways(results)}. Longest paths: {_said(results, 'paths')}.")


POWER = fixed(2)
CPU = {
    "lengths": (256, 512, 1024, 2048),
    "widths": (64, 128, 256, 512),
    "reaches": (33, 65, 129),
    "ways": (16, 32, 64, 128, 256),
    "timed": (64, 256, 1024),
    "seconds": 0.5,
}
SMOKE = {**CPU, "lengths": (256, 512), "widths": (64, 128), "reaches": (33, 65), "ways": (4, 8), "timed": (16, 32)}
STUDY = Study(
    rows=tuple(Row(kind, name, settings={"kind": kind}) for kind, name in KINDS.items() if kind != "attention"),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SMOKE, "seconds": 0.0}),
        "cpu": Scale(seeds=3, settings=CPU, note="Path and chain at n = 256; milliseconds of width 512, batch 1."),
        "gpu": Scale(seeds=3, settings=CPU),
    },
    stages=(measure(measure_layer),),
    columns=(
        Column("measure.length_power", "operations ~ n^", POWER, spread=False),
        Column("measure.width_power", "operations ~ d^", POWER, spread=False),
        Column("measure.reach_power", "operations ~ k^ or r^", POWER, spread=False),
        Column("measure.chain", "sequential", fixed(0), spread=False),
        Column("measure.chain_power", "sequential ~ n^", POWER, spread=False),
        Column("measure.path", "longest path", fixed(0), spread=False),
        Column("measure.path_power", "path ~ n^", POWER, spread=False),
        Column("measure.milliseconds_1", "ms, n = 64", significant(3), better="lower"),
        Column("measure.milliseconds_2", "ms, n = 256", significant(3), better="lower"),
        Column("measure.milliseconds_3", "ms, n = 1024", significant(3), better="lower"),
    ),
    figures=(draw,),
    published="table1.csv",
    claims="../claims.csv",
    competence=(),
    verdicts={
        "rnn-linear-interaction-distance": distance_in_rnn,
        "constant-path-length": constant_path,
        "attention-parallel-within-layer": parallel,
    },
    notes=(
        "Operations: multiply-adds of one forward pass, counted from the traced program. The published ones leave out "
        "the projections of self-attention, and so does the row.",
        "Path lengths of convolutions and of restricted attention are for stacked layers with k = r = 3; dilations are "
        "1, k, k^2, ..., and then again. A power of the length is also fitted where the published growth is "
        "logarithmic.",
    ),
)
